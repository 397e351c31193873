//! A secret typed or pasted at the controlling terminal: a dot for each character, and nothing of it
//! anywhere else.

use super::terminal::{RawMode, is_hung_up, open_terminal};
use crate::ports::secrets::SecretText;
use std::io::{Read as _, Write as _};
use zeroize::Zeroizing;

/// Bytes that are read at most; what is longer is no credential that anybody pastes.
const BYTES_MAX: usize = 64 * 1024;

/// What a key did to the text.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// It is longer or shorter, or the key means nothing.
    Goes(Change),
    /// Enter.
    Done,
    /// Escape, Ctrl-C or Ctrl-D.
    GivenUp,
}

/// What is drawn for it.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Dot,
    Back(usize),
}

/// The bytes typed so far.
#[derive(Default)]
struct Line(Zeroizing<Vec<u8>>);

impl Line {
    fn take(&mut self, byte: u8) -> Typed {
        match byte {
            b'\r' | b'\n' => Typed::Done,
            0x03 | 0x04 | 0x1b => Typed::GivenUp,
            0x7f | 0x08 => {
                let before = self.0.len();
                while self.0.pop().is_some_and(is_continuation) {}
                Typed::Goes(if before > 0 { Change::Back(1) } else { Change::Nothing })
            }
            // Ctrl-U takes all of it back.
            0x15 => {
                let shown = self.0.iter().filter(|byte| !is_continuation(**byte)).count();
                self.0.clear();
                Typed::Goes(Change::Back(shown))
            }
            0..=0x1f => Typed::Goes(Change::Nothing),
            byte => {
                if self.0.len() < BYTES_MAX {
                    self.0.push(byte);
                }
                Typed::Goes(if is_continuation(byte) { Change::Nothing } else { Change::Dot })
            }
        }
    }
}

/// Is it a later byte of a character?
fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Asks for a secret at the terminal; `None` if there is no terminal, or the person gave up.
pub(super) fn ask(prompt: &str) -> Option<SecretText> {
    let mut terminal = open_terminal().ok()?;
    terminal.write_all(prompt.as_bytes()).ok()?;
    let _raw = RawMode::enter(&terminal)?;
    let mut line = Line::default();
    loop {
        let mut byte = [0];
        if terminal.read(&mut byte).ok()? == 0 {
            if is_hung_up(&terminal) {
                return None;
            }
            continue;
        }
        let typed = line.take(byte[0]);
        match typed {
            Typed::Goes(Change::Nothing) => {}
            Typed::Goes(Change::Dot) => terminal.write_all("•".as_bytes()).ok()?,
            Typed::Goes(Change::Back(count)) => {
                terminal.write_all("\u{8} \u{8}".repeat(count).as_bytes()).ok()?;
            }
            Typed::GivenUp => {
                let _ = terminal.write_all(b"\r\n");
                return None;
            }
            Typed::Done => {
                let _ = terminal.write_all(b"\r\n");
                let text = std::str::from_utf8(&line.0).ok()?;
                return Some(SecretText::new(text.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: &str, expected: Option<&str>) {
        let mut line = Line::default();
        for byte in keys.bytes() {
            match line.take(byte) {
                Typed::Goes(_) => {}
                Typed::GivenUp => return assert_eq!(expected, None, "{keys:?}"),
                Typed::Done => break,
            }
        }
        let typed = String::from_utf8(line.0.to_vec()).ok();
        assert_eq!(typed.as_deref(), expected, "{keys:?}");
    }

    #[test]
    fn keys_make_a_line() {
        check("token\r", Some("token"));
        check("to\u{7f}\u{7f}\u{7f}key\n", Some("key"));
        check("é日\u{7f}x\r", Some("éx"));
        check("wrong\u{15}right\r", Some("right"));
        check("a\tb\u{0}\r", Some("ab"));
        check("abc\u{3}", None);
        check("abc\u{1b}[A", None);
    }
}
