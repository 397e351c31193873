//! Journal lines: numbered, each with a CRC32C over its number and its entry.
#![expect(clippy::disallowed_types, reason = "journals are files")]

use crate::adapters::whole::{FILE_MODE, failed, sync_folder};
use crate::model::ids::RunId;
use crate::model::journal::Entry;
use crate::ports::store::StoreError;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// One entry as a line: `{"n":…,"crc":"…","entry":…}`.
fn line(number: u64, entry: &Entry) -> Result<String, serde_json::Error> {
    let entry = serde_json::to_string(entry)?;
    Ok(format!("{{\"n\":{number},\"crc\":\"{}\",\"entry\":{entry}}}\n", crc(number, &entry)))
}

fn crc(number: u64, entry: &str) -> String {
    format!(
        "{:08x}",
        crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), entry.as_bytes())
    )
}

/// What a journal file holds.
pub(super) struct Parsed {
    pub(super) entries: Vec<Entry>,
    /// Bytes up to the end of the last whole line; more in the file is a torn line.
    pub(super) whole_bytes: u64,
}

/// Parses a journal. A last line without its line break is torn: it was never synced whole. Any other bad
/// line is corruption, the last one too, since it may have been a write's `sent`.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Parsed, StoreError> {
    let mut entries = Vec::new();
    let mut whole_bytes = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let number = entries.len() as u64;
        let (text, after) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(at) => rest.split_at(at + 1),
            None => (rest, [].as_slice()),
        };
        match entry(number, text) {
            Ok(entry) => {
                entries.push(entry);
                whole_bytes += text.len() as u64;
            }
            Err(_) if text.last() != Some(&b'\n') => break,
            Err(what) => {
                let place = format!("{} line {}", path.display(), number + 1);
                return Err(StoreError::Corrupt { place, what: what.to_owned() });
            }
        }
        rest = after;
    }
    Ok(Parsed { entries, whole_bytes })
}

fn entry(number: u64, text: &[u8]) -> Result<Entry, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not text")?;
    let text = text.strip_suffix("}\n").ok_or("it has no end")?;
    let text = text
        .strip_prefix(format!("{{\"n\":{number},\"crc\":\"").as_str())
        .ok_or("its number is wrong")?;
    let (sum, entry) = text.split_once("\",\"entry\":").ok_or("it has no entry")?;
    if sum != crc(number, entry) {
        return Err("its checksum does not match");
    }
    serde_json::from_str(entry).map_err(|_| "its entry is of a kind this build does not know")
}

/// An open journal.
#[derive(Debug)]
pub(super) struct JournalFile {
    file: File,
    /// Entries it has.
    length: u64,
    /// Bytes it has.
    bytes: u64,
    /// Do its name, and the run's record beside it, survive a crash?
    rooted: bool,
}

impl JournalFile {
    /// Opens a journal for appending. A torn last line is cut off, and that synced, before anything else.
    pub(super) fn open(path: &Path) -> Result<JournalFile, StoreError> {
        let io = |error: std::io::Error| failed(path, &error);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(FILE_MODE)
            .open(path)
            .map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let parsed = parse(path, &bytes)?;
        if parsed.whole_bytes < bytes.len() as u64 {
            file.set_len(parsed.whole_bytes).map_err(io)?;
            file.sync_all().map_err(io)?;
        }
        let (length, bytes) = (parsed.entries.len() as u64, parsed.whole_bytes);
        Ok(JournalFile { file, length, bytes, rooted: false })
    }

    /// Is the file still what this handle left behind, with `after` entries?
    pub(super) fn is(&self, after: u64, path: &Path) -> bool {
        let bytes = std::fs::metadata(path).map(|meta| meta.len());
        self.length == after && bytes.is_ok_and(|bytes| bytes == self.bytes)
    }

    /// Appends behind `after` entries, in one write.
    pub(super) fn append(
        &mut self,
        path: &Path,
        run: &RunId,
        after: u64,
        entries: &[Entry],
        durable: bool,
    ) -> Result<(), StoreError> {
        if self.length != after {
            return Err(StoreError::Moved(run.clone()));
        }
        let mut text = String::new();
        for (number, entry) in (after..).zip(entries) {
            let line = line(number, entry).map_err(|error| StoreError::Io {
                place: path.display().to_string(),
                what: error.to_string(),
            })?;
            text.push_str(&line);
        }
        self.file.write_all(text.as_bytes()).map_err(|error| failed(path, &error))?;
        if durable {
            self.sync(path, run).map_err(|error| failed(path, &error))?;
        }
        self.length += entries.len() as u64;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

impl JournalFile {
    /// The record goes first: a journal without one could not be run, and a run that has done nothing yet
    /// may as well be lost.
    fn sync(&mut self, path: &Path, run: &RunId) -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(path);
        if !self.rooted {
            match File::open(folder.join(format!("{run}.json"))) {
                Ok(record) => record.sync_all()?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.file.sync_data()?;
        if !self.rooted {
            sync_folder(folder)?;
            self.rooted = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "looks at the file itself")]
    use super::*;
    use crate::model::call::Seq;
    use crate::model::time::WallMs;

    fn sent(seq: u32) -> Entry {
        Entry::Sent { seq: Seq(seq), wall: WallMs(1) }
    }

    fn text(count: u32) -> String {
        (0..count).map(|n| line(u64::from(n), &sent(n)).unwrap()).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = match parse(Path::new("j"), text.as_bytes()) {
            Ok(parsed) => format!(
                "{} entries, {} torn bytes",
                parsed.entries.len(),
                text.len() as u64 - parsed.whole_bytes
            ),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_torn_last_line_is_no_entry_and_a_bad_line_elsewhere_is_corruption() {
        let whole = text(3);
        check("", "0 entries, 0 torn bytes");
        check(&whole, "3 entries, 0 torn bytes");
        let last = whole.rfind("{\"n\":2").unwrap();
        for end in last + 1..whole.len() {
            check(&whole[..end], &format!("2 entries, {} torn bytes", end - last));
        }
        check(&whole.replacen("sent", "sunt", 1), "j line 1: its checksum does not match");
        check(&whole[whole.find('\n').unwrap() + 1..], "j line 1: its number is wrong");
        check(&format!("{}{}", text(2), text(1)), "j line 3: its number is wrong");
        check(
            &whole.replacen("\"seq\":2", "\"seq\":3", 1),
            "j line 3: its checksum does not match",
        );
        check(&format!("{whole}\0\0\0"), "3 entries, 3 torn bytes");
    }

    #[test]
    fn an_append_cuts_a_torn_line_first_and_refuses_a_journal_that_moved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let run = RunId::from_random([0; 10]);
        std::fs::write(&path, text(2).trim_end()).unwrap();
        let mut journal = JournalFile::open(&path).unwrap();
        assert_eq!(
            journal.append(&path, &run, 2, &[sent(1)], true),
            Err(StoreError::Moved(run.clone()))
        );
        journal.append(&path, &run, 1, &[sent(1)], true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text(2));
    }
}
