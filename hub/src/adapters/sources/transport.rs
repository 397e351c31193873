//! JSON-RPC lines between the hub and a server. Lines that are not JSON-RPC are skipped and counted.
#![expect(clippy::disallowed_methods, reason = "what takes a call back is written by itself")]

use super::child::Scrub;
use super::raw::RawResults;
use crate::model::json::parse_from_server;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::Semaphore;

/// Bytes one line may have: a result of `callResultBytes`, escaped, with room around it.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// Answers to a server that may wait to be written; one that asks more than it reads gets no others.
const ANSWERS_MAX: usize = 64;

/// Lines over a pair of streams.
pub(super) struct Lines<R, W> {
    reader: BufReader<R>,
    /// The line being read.
    line: Vec<u8>,
    writer: Arc<tokio::sync::Mutex<W>>,
    answers: Arc<Semaphore>,
    raw: RawResults,
    skipped: Arc<AtomicU64>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    pub(super) fn new(reader: R, writer: W, skipped: Arc<AtomicU64>, scrub: Scrub) -> Self {
        Lines {
            reader: BufReader::new(reader),
            line: Vec::new(),
            writer: Arc::new(tokio::sync::Mutex::new(writer)),
            answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
            raw: RawResults::new(scrub),
            skipped,
        }
    }

    fn message(&self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.raw.message(parse_from_server(line)?)
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (writer, raw) = (Arc::clone(&self.writer), self.raw.clone());
        let answers = Arc::clone(&self.answers);
        async move {
            let value = serde_json::to_value(&item).map_err(std::io::Error::other)?;
            raw.note(&value);
            let mut line = value.to_string();
            line.push('\n');
            match value.get("method").and_then(Value::as_str) {
                // Whoever takes a call back does not wait until the server has read that.
                Some("notifications/cancelled") => {
                    tokio::spawn(async move { write(&writer, &line).await });
                    Ok(())
                }
                Some(_) => write(&writer, &line).await,
                None => match answers.try_acquire() {
                    Ok(_one) => write(&writer, &line).await,
                    Err(_) => Ok(()),
                },
            }
        }
    }

    // The library drops this future whenever it has something to send, so what was read so far stays in
    // `self`: a half-read line must not be lost.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let left = LINE_BYTES_MAX.saturating_sub(self.line.len() as u64);
            let mut reader = (&mut self.reader).take(left);
            let read = reader.read_until(b'\n', &mut self.line).await.ok()?;
            let whole = self.line.last() == Some(&b'\n');
            if !whole && self.line.len() as u64 >= LINE_BYTES_MAX {
                // What follows is the middle of a message that nothing could use.
                return None;
            }
            if !whole && read > 0 {
                continue;
            }
            if self.line.is_empty() {
                return None;
            }
            let line = std::mem::take(&mut self.line);
            match self.message(&line) {
                Some(message) => return Some(message),
                None if line.iter().all(u8::is_ascii_whitespace) => {}
                None => {
                    self.skipped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Somebody who writes to a server that reads nothing may hold it for ever; its end closes it, too.
        match self.writer.try_lock() {
            Ok(mut writer) => writer.shutdown().await,
            Err(_) => Ok(()),
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<W>,
    line: &str,
) -> std::io::Result<()> {
    let mut writer = writer.lock().await;
    writer.write_all(line.as_bytes()).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_half_read_when_the_reader_is_dropped_is_not_lost() {
        use tokio::io::AsyncWriteExt as _;
        let (mut far, near) = tokio::io::duplex(64);
        let mut lines = Lines::new(near, Vec::new(), Arc::default(), Arc::new(str::to_owned));
        far.write_all(b"{\"jsonrpc\":\"2.0\",").await.unwrap();
        for _ in 0..3 {
            let receiving = lines.receive();
            let dropped =
                futures::future::select(Box::pin(receiving), std::future::ready(())).await;
            assert!(matches!(dropped, futures::future::Either::Right(_)));
        }
        far.write_all(b"\"method\":\"ping\",\"id\":1}\n").await.unwrap();
        assert!(lines.receive().await.is_some());
    }

    #[tokio::test]
    async fn lines_that_are_not_json_rpc_are_skipped_and_counted() {
        let text = "Starting server ...\n[1,2]\n\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"n\":9007199254740993}}\n";
        let skipped = Arc::new(AtomicU64::new(0));
        let mut lines =
            Lines::new(text.as_bytes(), Vec::new(), Arc::clone(&skipped), Arc::new(str::to_owned));
        lines.raw.note(&serde_json::json!({"id": 7, "method": "tools/call"}));
        let message = serde_json::to_value(lines.receive().await.unwrap()).unwrap();
        assert_eq!(message["result"].to_string(), "[{\"n\":9007199254740993}]");
        assert!(lines.receive().await.is_none());
        assert_eq!(skipped.load(Ordering::Relaxed), 2);
    }
}
