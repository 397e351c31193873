//! One guest: boots the prelude, runs turns, and says what each asked for.

use super::explain::{missing_global, places};
use super::host::{Host, object};
use super::meter::{Meter, MeterKind};
use super::raw::{Bytecode, Heap, run};
use super::values::{is_out_of_memory, parse};
use crate::model::json::cut;
use crate::model::turn::{Answer, Delivery, GuestEnd, GuestLimit, Program, Turn, Yielded};
use rquickjs::context::intrinsic;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Object, Persistent, Promise, Runtime, Value};
use std::rc::Rc;

const PRELUDE: &str = include_str!("prelude.js");
/// The name guest code has in stack lines.
pub(super) const CODE_NAME: &str = "code.js";
/// The program's own first line is the hub's, so guest code starts on the second.
const OPENING: &str = "(async () => {";
const CLOSING: &str = "\n})()";
/// Bytes of an error message, its places included, and of a hint.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Intrinsics of the guest: no `Eval`, so nothing in it can compile; no `Performance`, so no real clock.
type GuestIntrinsics = ((
    intrinsic::Date,
    intrinsic::RegExp,
    intrinsic::RegExpCompiler,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::DOMException,
),);
type CompilerIntrinsics = ((intrinsic::Eval, intrinsic::RegExpCompiler),);

/// One run's code, for one attempt.
pub(super) struct Guest {
    // Fields drop in this order: everything that points into the runtime goes before it.
    main: Option<Persistent<Promise<'static>>>,
    inner: Persistent<Object<'static>>,
    context: Context,
    compiler: Context,
    runtime: Runtime,
    host: Rc<Host>,
    ended: bool,
    spoiled: bool,
}

/// What can be made before the program is known.
pub(super) struct Blank {
    runtime: Runtime,
    compiler: Context,
    context: Context,
    prelude: Bytecode,
}

impl Blank {
    /// A runtime with the prelude compiled.
    pub(super) fn new(stack_bytes: usize) -> Result<Blank, Error> {
        let runtime = Runtime::new()?;
        runtime.set_max_stack_size(stack_bytes);
        let compiler = Context::custom::<CompilerIntrinsics>(&runtime)?;
        let context = Context::custom::<GuestIntrinsics>(&runtime)?;
        let prelude = compiler.with(|ctx| Bytecode::compile(&ctx, PRELUDE, "hub"))?;
        Ok(Blank { runtime, compiler, context, prelude })
    }

    /// A guest that has run nothing yet.
    pub(super) fn open(self, program: Program, kind: MeterKind) -> Result<Guest, Error> {
        let Blank { runtime, compiler, context, prelude } = self;
        let memory_bytes = usize::try_from(program.memory_bytes).unwrap_or(usize::MAX);
        let host = Host::new(program, Meter::new(kind));
        // The prelude itself does not count against the guest's budget.
        host.begin_step(0, u64::MAX / 2);
        let inner = context.with(|ctx| {
            let function: Function<'_> = run(&ctx, &prelude)?.get()?;
            let inner: Object<'_> = function.call((object(&ctx, &host)?,))?;
            Ok::<_, Error>(Persistent::save(&ctx, inner))
        })?;
        runtime.set_memory_limit(memory_bytes);
        let polled = Rc::clone(&host);
        let heap = context.with(|ctx| Heap::of(&ctx, memory_bytes));
        runtime.set_interrupt_handler(Some(Box::new(move || {
            heap.collect_in_time();
            polled.memory_low.set(polled.memory_low.get() || heap.is_low());
            polled.meter.poll() || polled.limit.get().is_some()
        })));
        let (ended, spoiled) = (false, false);
        Ok(Guest { main: None, inner, context, compiler, runtime, host, ended, spoiled })
    }
}

/// Why a step went no further.
enum Stuck {
    Limit(GuestLimit),
    Threw(GuestEnd),
}

impl Guest {
    /// Runs one turn to quiescence.
    pub(super) fn step(&mut self, turn: Turn) -> Yielded {
        self.host.begin_step(turn.at.0, turn.budget_us);
        let delivered = self.deliver(turn.delivery).or_else(|stuck| self.unless_ended(stuck));
        let end = match delivered.and_then(|()| self.drain()) {
            Ok(()) => self.main_end().or_else(|| self.stranded()),
            Err(Stuck::Limit(limit)) => Some(GuestEnd::Limit(limit)),
            Err(Stuck::Threw(end)) => Some(end),
        };
        let end = match (self.host.limit.get(), end) {
            (Some(limit), _) => Some(GuestEnd::Limit(limit)),
            (None, _) if self.host.meter.check() => Some(GuestEnd::Limit(GuestLimit::Compute)),
            (None, end) => end,
        };
        self.spoiled |= end == Some(GuestEnd::Limit(GuestLimit::Memory));
        let mut yielded = self.host.yielded.take();
        if end.is_some() && !self.ended {
            self.ended = true;
            yielded.end = end;
        } else if let Some(GuestEnd::Limit(limit)) = end {
            yielded.end = Some(GuestEnd::Limit(limit));
        }
        yielded.cost_us = self.host.meter.spent_us();
        yielded
    }

    /// Did the heap run full? Tearing it down can then abort the process.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    fn deliver(&mut self, delivery: Delivery) -> Result<(), Stuck> {
        if delivery == Delivery::Start {
            return self.start();
        }
        let inner = self.inner.clone();
        let host = Rc::clone(&self.host);
        let threw = self.context.with(|ctx| {
            let delivered =
                inner.restore(&ctx).and_then(|inner| deliver_to(&ctx, &inner, delivery));
            delivered.err().map(|_| caught(&ctx, &host, self.inner.clone()))
        });
        threw.map_or(Ok(()), Err)
    }

    fn start(&mut self) -> Result<(), Stuck> {
        let source = format!("{OPENING}{}{CLOSING}", self.host.program.body);
        let code = self.compiler.with(|ctx| {
            Bytecode::compile(&ctx, &source, CODE_NAME).map_err(|_| {
                let error = ctx.catch();
                if is_out_of_memory(&error, true) {
                    return Stuck::Limit(GuestLimit::Memory);
                }
                if self.host.meter.check() {
                    return Stuck::Limit(GuestLimit::Compute);
                }
                let error = error.as_object();
                let text = |key: &str| error.and_then(|error| error.get::<_, String>(key).ok());
                let message =
                    text("message").unwrap_or_else(|| "the code does not compile".to_owned());
                let place = text("stack").map(|stack| places(&stack)).unwrap_or_default();
                Stuck::Threw(GuestEnd::Syntax(
                    format!("{message} {}", place.trim()).trim().to_owned(),
                ))
            })
        })?;
        let host = Rc::clone(&self.host);
        let started = self.context.with(|ctx| {
            let made = run(&ctx, &code).and_then(|value| {
                let promise = Promise::from_value(value)?;
                Ok(Persistent::save(&ctx, promise))
            });
            made.map_err(|_| caught(&ctx, &host, self.inner.clone()))
        });
        self.main = Some(started?);
        Ok(())
    }

    /// Runs jobs until none is left or the budget is used up.
    fn drain(&self) -> Result<(), Stuck> {
        loop {
            if self.host.meter.check() {
                return Err(Stuck::Limit(GuestLimit::Compute));
            }
            if let Some(limit) = self.host.limit.get() {
                return Err(Stuck::Limit(limit));
            }
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // A microtask threw, as a timer may; or a limit was met in one.
                Err(_) => self
                    .context
                    .with(|ctx| self.unless_ended(caught(&ctx, &self.host, self.inner.clone())))?,
            }
        }
    }

    /// What is thrown after the end changes nothing.
    fn unless_ended(&self, stuck: Stuck) -> Result<(), Stuck> {
        match &stuck {
            Stuck::Threw(_) if self.ended => Ok(()),
            Stuck::Threw(_) | Stuck::Limit(_) => Err(stuck),
        }
    }

    /// How the program's own promise settled, once.
    fn main_end(&self) -> Option<GuestEnd> {
        if self.ended {
            return None;
        }
        let main = self.main.clone()?;
        self.context.with(|ctx| {
            let main = main.restore(&ctx).ok()?;
            match main.state() {
                PromiseState::Pending => None,
                PromiseState::Resolved | PromiseState::Rejected => {
                    let end = match main.result::<Value<'_>>() {
                        None => return None,
                        Some(Ok(value)) => self.returned(&ctx, &value),
                        Some(Err(_)) => match caught(&ctx, &self.host, self.inner.clone()) {
                            Stuck::Limit(limit) => GuestEnd::Limit(limit),
                            Stuck::Threw(end) => end,
                        },
                    };
                    Some(end)
                }
            }
        })
    }

    /// With no room left, the engine can lose the very rejection that would say so: a program that waits
    /// for nothing it asked for, after memory ran low, ran out of it.
    fn stranded(&self) -> Option<GuestEnd> {
        if self.ended || !self.host.memory_low.get() {
            return None;
        }
        let waits = self.context.with(|ctx| {
            let inner = self.inner.clone().restore(&ctx)?;
            let idle: Function<'_> = inner.get("idle")?;
            idle.call::<_, bool>(()).map(|idle| !idle)
        });
        (!waits.unwrap_or(false)).then_some(GuestEnd::Limit(GuestLimit::Memory))
    }

    fn returned<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> GuestEnd {
        let text = self.inner.clone().restore(ctx).and_then(|inner| {
            let to_text: Function<'js> = inner.get("toText")?;
            to_text.call::<_, Option<rquickjs::String<'js>>>((value.clone(),))
        });
        match text {
            Ok(None) => GuestEnd::Returned(None),
            Ok(Some(text)) => match text.to_string() {
                Ok(text) => match self.host.plain(&text) {
                    Ok(text) => GuestEnd::Returned(Some(text)),
                    Err(why) => {
                        GuestEnd::NotJson(format!("the returned value cannot be used: {why}"))
                    }
                },
                Err(_) => {
                    GuestEnd::NotJson("the returned value is not well-formed text".to_owned())
                }
            },
            Err(_) => match caught(ctx, &self.host, self.inner.clone()) {
                Stuck::Limit(limit) => GuestEnd::Limit(limit),
                Stuck::Threw(GuestEnd::Threw { message, .. }) => {
                    let first = message.lines().next().unwrap_or("");
                    GuestEnd::NotJson(format!(
                        "the returned value cannot be written as JSON: {first}"
                    ))
                }
                Stuck::Threw(other) => other,
            },
        }
    }
}

fn deliver_to<'js>(ctx: &Ctx<'js>, inner: &Object<'js>, delivery: Delivery) -> Result<(), Error> {
    match delivery {
        Delivery::Start => Ok(()),
        Delivery::Call { seq, answer } => match answer {
            Answer::Json(text) => {
                let settle: Function<'_> = inner.get("settle")?;
                settle.call((seq.0, parse(ctx, &text)?))
            }
            Answer::Text(text) => {
                let settle: Function<'_> = inner.get("settle")?;
                settle.call((seq.0, parse(ctx, &text)?, text))
            }
            Answer::Error(text) => {
                let fail: Function<'_> = inner.get("fail")?;
                fail.call((seq.0, parse(ctx, &text)?))
            }
        },
        Delivery::Timer { id } => {
            let fire: Function<'_> = inner.get("fire")?;
            fire.call::<_, Value<'_>>((id,)).map(|_| ())
        }
        Delivery::Lookup { id, answer } => {
            let found: Function<'_> = inner.get("found")?;
            let (ok, text) = match answer {
                Ok(text) => (true, text),
                Err(text) => (false, text),
            };
            found.call((id, ok, text))
        }
    }
}

/// What the pending exception means: a limit, or something the code threw.
fn caught(ctx: &Ctx<'_>, host: &Host, inner: Persistent<Object<'static>>) -> Stuck {
    let error = ctx.catch();
    if host.meter.check() {
        return Stuck::Limit(GuestLimit::Compute);
    }
    // A heap can fill between two polls; `null` is then the engine's, if the code throws nothing itself.
    if is_out_of_memory(&error, host.memory_low.get() || !host.code_throws()) {
        return Stuck::Limit(GuestLimit::Memory);
    }
    let explained = inner.restore(ctx).and_then(|inner| {
        let explain: Function<'_> = inner.get("explain")?;
        let stack: Function<'_> = inner.get("stack")?;
        let hint: Function<'_> = inner.get("hint")?;
        Ok((
            explain.call::<_, String>((error.clone(),))?,
            stack.call::<_, String>((error.clone(),))?,
            hint.call::<_, Option<String>>((error,))?,
        ))
    });
    match explained {
        Ok((text, stack, hint)) => {
            let places = cut(&places(&stack), MESSAGE_BYTES_MAX / 2).to_owned();
            let text = cut(&text, MESSAGE_BYTES_MAX - 1 - places.len());
            let hint = match hint {
                Some(hint) => Some(cut(&hint, MESSAGE_BYTES_MAX).to_owned()),
                None => missing_global(text, host.namespaces()),
            };
            let message = format!("{text}\n{places}").trim_end().to_owned();
            Stuck::Threw(GuestEnd::Threw { message, hint })
        }
        Err(_) if host.meter.check() => Stuck::Limit(GuestLimit::Compute),
        Err(_) => Stuck::Limit(GuestLimit::Memory),
    }
}
