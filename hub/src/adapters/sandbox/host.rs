//! What the prelude may ask of Rust: the only way out of the guest.

use super::explain::{first_line, places};
use super::meter::Meter;
use super::values::unmark;
use crate::model::call::Seq;
use crate::model::digest::Digest;
use crate::model::limits::{LOG_BYTES_KEPT, TIMERS_MAX};
use crate::model::nearest::nearest;
use crate::model::turn::{
    GuestCall, GuestLimit, GuestLookup, GuestTimer, LookupKind, Program, Yielded,
};
use crate::model::visible::one_line;
use rquickjs::prelude::{Func, Opt};
use rquickjs::{Array, Ctx, Exception, Object, Result, TypedArray, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Calls one step may ask for, far over what a run may have.
const CALLS_PER_STEP: usize = 10_000;
/// Lookups one step may ask for.
const LOOKUPS_PER_STEP: usize = 1_000;
/// Bytes that all calls and lookups of one step may have together.
const STEP_BYTES_MAX: usize = 16 << 20;

/// Collects what a step asks for.
pub(super) struct Host {
    pub(super) program: Program,
    pub(super) meter: Meter,
    pub(super) now: Cell<u64>,
    pub(super) yielded: RefCell<Yielded>,
    pub(super) limit: Cell<Option<GuestLimit>>,
    /// Did the heap come near its limit in this step?
    pub(super) memory_low: Cell<bool>,
    /// Marks a BigInt inside JSON text; no guest can know it.
    pub(super) mark: String,
    log_bytes: Cell<usize>,
    step_bytes: Cell<usize>,
}

impl Host {
    pub(super) fn new(program: Program, meter: Meter) -> Rc<Host> {
        let mark = Digest::of(&[program.seed.as_slice(), b"bigint"].concat());
        Rc::new(Host {
            now: Cell::new(program.started.0),
            program,
            meter,
            yielded: RefCell::default(),
            limit: Cell::new(None),
            memory_low: Cell::new(false),
            mark: format!("{mark}:"),
            log_bytes: Cell::new(0),
            step_bytes: Cell::new(0),
        })
    }

    pub(super) fn begin_step(&self, now: u64, budget_us: u64) {
        self.now.set(self.now.get().max(now));
        self.step_bytes.set(0);
        self.memory_low.set(false);
        *self.yielded.borrow_mut() = Yielded::default();
        self.meter.start(budget_us);
    }

    pub(super) fn log(&self, line: String) {
        // One more for its end: empty lines are not free.
        let bytes = self.log_bytes.get() + line.len() + 1;
        let mut yielded = self.yielded.borrow_mut();
        if bytes > LOG_BYTES_KEPT {
            yielded.logs_dropped += 1;
        } else {
            self.log_bytes.set(bytes);
            yielded.logs.push(line);
        }
    }

    /// The names the guest may use, for a better hint.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.program.sources.iter().map(|(namespace, _)| namespace.as_str())
    }

    /// Does the code throw, or reject with, anything of its own?
    pub(super) fn code_throws(&self) -> bool {
        ["throw", "reject"].iter().any(|word| self.program.body.contains(word))
    }

    /// JSON text as the hub reads it, or why the guest may not send it.
    pub(super) fn plain(&self, text: &str) -> std::result::Result<String, String> {
        let text = unmark(text, &self.mark)?;
        let bytes_max = self.program.value_bytes_max;
        if text.len() as u64 > bytes_max {
            return Err(format!(
                "it has {} bytes as JSON; at most {bytes_max} are allowed",
                text.len()
            ));
        }
        Ok(text)
    }

    fn call(
        &self,
        seq: f64,
        namespace: String,
        tool: String,
        text: &str,
        connection: Option<String>,
        stack: &str,
    ) -> std::result::Result<(), String> {
        let arguments = self.plain(text).map_err(|why| format!("{namespace}.{tool}: {why}"))?;
        let mut yielded = self.yielded.borrow_mut();
        let fits = self.fits(arguments.len() + connection.as_ref().map_or(0, String::len));
        if yielded.calls.len() >= CALLS_PER_STEP || !fits {
            self.limit.set(Some(GuestLimit::Calls));
            return Err("too many calls at once".to_owned());
        }
        yielded.calls.push(GuestCall {
            seq: Seq(number(seq)),
            namespace,
            tool,
            arguments,
            connection,
            line: first_line(stack),
        });
        Ok(())
    }

    /// Counts bytes that leave the guest in this step; are they few enough?
    fn fits(&self, bytes: usize) -> bool {
        let sum = self.step_bytes.get().saturating_add(bytes);
        self.step_bytes.set(sum);
        sum <= STEP_BYTES_MAX
    }

    fn timer(&self, id: f64, delay_ms: f64) {
        let mut yielded = self.yielded.borrow_mut();
        if yielded.timers.len() >= TIMERS_MAX {
            self.limit.set(Some(GuestLimit::Requests));
            return;
        }
        yielded.timers.push(GuestTimer { id: number(id), delay_ms: u64::from(number(delay_ms)) });
    }

    fn clear(&self, id: f64) {
        let id = number(id);
        let mut yielded = self.yielded.borrow_mut();
        let before = yielded.timers.len();
        yielded.timers.retain(|timer| timer.id != id);
        if yielded.timers.len() == before {
            yielded.cleared.push(id);
        }
    }

    fn lookup(&self, id: f64, kind: &str, text: &str) -> std::result::Result<(), String> {
        let arguments = self.plain(text)?;
        let kind = if kind == "search" { LookupKind::Search } else { LookupKind::Describe };
        let mut yielded = self.yielded.borrow_mut();
        if yielded.lookups.len() >= LOOKUPS_PER_STEP || !self.fits(arguments.len()) {
            self.limit.set(Some(GuestLimit::Requests));
            return Err("too many lookups at once".to_owned());
        }
        yielded.lookups.push(GuestLookup { id: number(id), kind, arguments });
        Ok(())
    }

    /// What a call of a tool that does not exist throws.
    fn missing(&self, namespace: &str, tool: &str) -> String {
        let tools = self.program.sources.iter().find(|(name, _)| name == namespace);
        let names: Vec<&str> =
            tools.into_iter().flat_map(|(_, tools)| tools).map(String::as_str).collect();
        let close = nearest(tool, names.iter().copied(), 3);
        let advice = if close.is_empty() {
            format!("`hub.search(\"\", {{ namespace: \"{namespace}\" }})` lists what it has")
        } else {
            let close: Vec<String> =
                close.into_iter().map(|name| format!("{namespace}.{name}")).collect();
            format!("did you mean {}?", close.join(", "))
        };
        format!("there is no tool {namespace}.{}; {advice}", one_line(tool, 80))
    }
}

/// A number the prelude counted; it is whole and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from f64 saturates"
)]
fn number(value: f64) -> u32 {
    value as u32
}

/// The four words that the prelude's generator starts from. Each depends on the whole seed.
fn words(seed: &[u8; 32]) -> [u32; 4] {
    let digits = Digest::of(&[seed.as_slice(), b"chance"].concat()).to_string();
    [0, 8, 16, 24].map(|at| {
        let word = digits.get(at..at + 8).and_then(|word| u32::from_str_radix(word, 16).ok());
        // The digits always read; the generator could never leave a state of nothing but zeros.
        word.unwrap_or(1)
    })
}

fn thrown<'js, T>(ctx: &Ctx<'js>, outcome: std::result::Result<T, String>) -> Result<T> {
    outcome.map_err(|why| Exception::throw_type(ctx, &why))
}

/// The object the prelude is called with.
pub(super) fn object<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("mark", host.mark.as_str())?;
    let seed = Array::new(ctx.clone())?;
    for (at, word) in words(&host.program.seed).into_iter().enumerate() {
        seed.set(at, f64::from(word))?;
    }
    object.set("seed", seed)?;
    let sources = Array::new(ctx.clone())?;
    for (at, (namespace, tools)) in host.program.sources.iter().enumerate() {
        let pair = Array::new(ctx.clone())?;
        pair.set(0, namespace.as_str())?;
        pair.set(1, tools.clone())?;
        sources.set(at, pair)?;
    }
    object.set("sources", sources)?;

    let h = Rc::clone(host);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit 53 bits")]
    object.set("now", Func::from(move || h.now.get() as f64))?;
    let h = Rc::clone(host);
    object.set("log", Func::from(move |line: String| h.log(line)))?;
    let h = Rc::clone(host);
    object.set("timer", Func::from(move |id: f64, delay: f64| h.timer(id, delay)))?;
    let h = Rc::clone(host);
    object.set("clear", Func::from(move |id: f64| h.clear(id)))?;
    let h = Rc::clone(host);
    object.set(
        "call",
        Func::from(
            move |ctx: Ctx<'js>,
                  seq: f64,
                  namespace: String,
                  tool: String,
                  text: String,
                  connection: Option<String>,
                  stack: Opt<Option<String>>| {
                let stack = stack.0.flatten().unwrap_or_default();
                thrown(&ctx, h.call(seq, namespace, tool, &text, connection, &stack))
            },
        ),
    )?;
    let h = Rc::clone(host);
    object.set(
        "lookup",
        Func::from(move |ctx: Ctx<'js>, id: f64, kind: String, text: String| {
            thrown(&ctx, h.lookup(id, &kind, &text))
        }),
    )?;
    let h = Rc::clone(host);
    object.set(
        "missing",
        Func::from(move |namespace: String, tool: String| h.missing(&namespace, &tool)),
    )?;
    object.set(
        "encode",
        Func::from(|ctx: Ctx<'js>, text: String| TypedArray::<u8>::new(ctx, text)),
    )?;
    object.set("places", Func::from(|stack: String| places(&stack)))?;
    object.set(
        "decode",
        Func::from(|ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, fatal: bool, first: bool| {
            decode(&ctx, &bytes, fatal, first)
        }),
    )?;
    Ok(object)
}

fn decode<'js>(
    ctx: &Ctx<'js>,
    bytes: &TypedArray<'js, u8>,
    fatal: bool,
    first: bool,
) -> Result<Value<'js>> {
    use rquickjs::IntoJs as _;
    let bytes = super::raw::bytes(bytes);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| first).unwrap_or(&bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into_js(ctx),
        Err(_) if fatal => Err(Exception::throw_type(ctx, "the bytes are not valid utf-8")),
        Err(_) => String::from_utf8_lossy(bytes).into_owned().into_js(ctx),
    }
}
