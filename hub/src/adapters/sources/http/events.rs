//! A stream of server-sent events, byte by byte: events may be cut anywhere, and none may be too large.

/// Bytes one event may have: a result of `callResultBytes`, escaped, with room around it.
pub(super) const EVENT_BYTES_MAX: usize = 32 << 20;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; `message` when it has none.
    pub(super) name: String,
    /// Its data, lines joined.
    pub(super) data: String,
    /// The last id that was given, in this event or before it.
    pub(super) id: Option<String>,
}

/// Reads events from pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Bytes of the line that is not over.
    line: Vec<u8>,
    /// A carriage return ended the last line: a line feed right after it belongs to it.
    after_return: bool,
    /// Has anything been read? The first bytes may be a byte order mark.
    begun: bool,
    name: String,
    data: Option<String>,
    id: Option<String>,
    /// Milliseconds after which the server wants a broken stream to be taken up again.
    pub(super) retry_ms: Option<u64>,
}

/// An event is larger than [`EVENT_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Events {
    /// Takes the next bytes of the stream; the events that ended in them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if std::mem::take(&mut self.after_return) => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.take_line(&line, &mut events);
                }
                byte => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_BYTES_MAX {
                return Err(TooLarge);
            }
        }
        Ok(events)
    }

    /// The last id given: where a broken stream is taken up again.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<Event>) {
        let line = String::from_utf8_lossy(line);
        let line = if std::mem::replace(&mut self.begun, true) {
            &line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        };
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            if let Some(data) = self.data.take() {
                let name = if name.is_empty() { "message".to_owned() } else { name };
                events.push(Event { name, data, id: self.id.clone() });
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<Event> {
        let mut events = Events::default();
        pieces.iter().flat_map(|piece| events.take(piece).unwrap()).collect()
    }

    #[test]
    fn events_are_read_as_browsers_read_them() {
        let text = "\u{feff}: comment\n\nevent: endpoint\ndata: /messages?x=1\n\nid: 7\ndata:{\"a\":\ndata: 1}\r\n\r\nretry: 500\nid\ndata\n\nunknown: x\ndata: not over";
        let events = read(&[text.as_bytes()]);
        let shown: Vec<String> = events
            .iter()
            .map(|event| format!("{} {:?} {:?}", event.name, event.data, event.id))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        endpoint "/messages?x=1" None
        message "{\"a\":\n1}" Some("7")
        message "" Some("")
        "#);
    }

    #[test]
    fn an_event_that_never_ends_is_given_up() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        let mut taken = events.take(b"data: ");
        for _ in 0..40 {
            taken = taken.and_then(|_| events.take(&piece));
        }
        assert_eq!(taken, Err(TooLarge));
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            lines in prop::collection::vec("(data: ?[a-zé]{0,6}|id: [0-9]|event: [a-z]{1,3}|)(\n|\r|\r\n)", 0..20),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let text = lines.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
