//! Random programs, as a model might write them. Every call carries a number of its own, so that what
//! reaches a server can be told apart.

use crate::seed::{Seed, Stream};
use std::fmt::Write as _;

const READS: &[&str] = &["alpha.get", "beta.list"];
const WRITES: &[&str] = &["alpha.put", "beta.post", "beta.purge"];

struct Writer {
    draw: Stream,
    calls: u32,
    text: String,
}

/// The program of a seed.
#[must_use]
pub fn program(seed: Seed) -> String {
    let mut writer =
        Writer { draw: seed.stream("program"), calls: 0, text: "const out = [];\n".to_owned() };
    for _ in 0..2 + writer.draw.below(6) {
        writer.statement();
    }
    writer.text.push_str("return out.length;\n");
    writer.text
}

impl Writer {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    fn call(&mut self, of: &[&str]) -> String {
        self.calls += 1;
        format!("{}({{ k: {} }})", self.draw.pick(of), self.calls)
    }

    fn any(&mut self) -> String {
        if self.draw.percent(60) { self.call(READS) } else { self.call(WRITES) }
    }

    fn statement(&mut self) {
        match self.draw.below(11) {
            0 | 1 => {
                let call = self.call(READS);
                self.line(&format!("out.push(await {call}.catch((e) => e.code));"));
            }
            2 | 3 => {
                let call = self.call(WRITES);
                self.line(&format!("out.push(await {call}.catch((e) => e.code));"));
            }
            4 => {
                let calls: Vec<String> = (0..2 + self.draw.below(5)).map(|_| self.any()).collect();
                self.line(&format!("out.push(await Promise.allSettled([{}]));", calls.join(", ")));
            }
            5 => {
                let call = self.any();
                self.line(&format!("try {{ out.push(await {call}); }} catch (e) {{ out.push(e.message); }} finally {{ out.push(0); }}"));
            }
            6 => {
                let ms = self.draw.below(200);
                self.line(&format!(
                    "await new Promise((done) => setTimeout(done, {ms})); out.push(Date.now() > 0);"
                ));
            }
            7 => {
                let (one, other) = (self.any(), self.any());
                self.line(&format!("if (Math.random() < 0.5) {{ await {one}.catch(() => 0); }} else {{ await {other}.catch(() => 0); }}"));
            }
            8 => {
                let call = self.call(WRITES);
                self.line(&format!("{call}.then((v) => out.push(v), () => out.push(1));"));
            }
            9 => {
                let (one, other) = (self.any(), self.any());
                self.line(&format!(
                    "out.push(await Promise.race([{one}, {other}]).catch((e) => e.code));"
                ));
            }
            _ => {
                let first = 1000 * (self.calls + 1);
                let tool = if self.draw.percent(50) {
                    *self.draw.pick(READS)
                } else {
                    *self.draw.pick(WRITES)
                };
                self.calls += 1;
                self.line(&format!(
                    "for (let i = 0; i < 3; i += 1) {{ out.push(await {tool}({{ k: {first} + i }}).catch((e) => e.code)); }}"
                ));
                self.line("out.push((await hub.search(\"get\")).length);");
            }
        }
    }
}
