//! Random programs for runs that are killed: every write says something of its own.

use sim::seed::Stream;
use std::fmt::Write as _;

const READS: &[&str] = &["free.listNotes()", "asks.listNotes()"];
/// Writes that a rule allows, and writes that a person must.
const WRITES: &[&str] = &["free.addNote", "free.shareNote", "asks.addNote", "asks.shareNote"];

struct Writer<'a> {
    draw: &'a mut Stream,
    tag: &'a str,
    writes: u32,
    text: String,
}

/// A program whose writes say `<tag>-1`, `<tag>-2` and so on.
pub(super) fn program(draw: &mut Stream, tag: &str) -> String {
    let mut writer = Writer { draw, tag, writes: 0, text: "const out = [];\n".to_owned() };
    for _ in 0..2 + writer.draw.below(4) {
        writer.statement();
    }
    writer.text.push_str("return out;\n");
    writer.text
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    fn read(&mut self) -> String {
        (*self.draw.pick(READS)).to_owned()
    }

    fn write(&mut self) -> String {
        self.writes += 1;
        format!("{}({{ text: '{}-{}' }})", self.draw.pick(WRITES), self.tag, self.writes)
    }

    fn any(&mut self) -> String {
        if self.draw.percent(35) { self.read() } else { self.write() }
    }

    fn statement(&mut self) {
        match self.draw.below(8) {
            0 => {
                let call = self.read();
                self.line(&format!("out.push((await {call}).notes.length);"));
            }
            1 => {
                let call = self.write();
                self.line(&format!("out.push(await {call});"));
            }
            2 | 3 => {
                let call = self.write();
                self.line(&format!(
                    "try {{ out.push(await {call}); }} catch (e) {{ out.push(e.code); }}"
                ));
            }
            4 | 5 => {
                let calls: Vec<String> = (0..2 + self.draw.below(5)).map(|_| self.any()).collect();
                self.line(&format!(
                    "out.push((await Promise.allSettled([{}])).map((one) => one.status));",
                    calls.join(", ")
                ));
            }
            6 => {
                let (call, ms) = (self.any(), self.draw.below(30));
                self.line(&format!("await new Promise((done) => setTimeout(done, {ms}));"));
                self.line(&format!("out.push(await {call}.catch((e) => e.code));"));
            }
            _ => {
                let call = self.write();
                self.line(&format!("{call}.then((said) => out.push(said), () => out.push(0));"));
            }
        }
    }
}
