//! Serving one client over standard input and output.

use super::server::HubServer;
use crate::driver::Hub;
use crate::ports::Ports;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::{Transport, async_rw::AsyncRwTransport, stdio_pipes};
use rmcp::{RoleServer, ServiceExt as _};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes one line from a client may have.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Serves until the client closes its end, then lets writes settle.
///
/// # Errors
/// The client began with something that is no MCP.
pub async fn serve_stdio<P: Ports>(hub: Hub<P>, profile: String) -> Result<(), String> {
    let closed = Arc::new(AtomicBool::new(false));
    let server = HubServer::new(hub.clone(), profile, Arc::clone(&closed));
    let (reader, writer) = stdio_pipes();
    let inner = AsyncRwTransport::new_server(reader, writer).with_max_line_length(LINE_BYTES_MAX);
    let served = match server.serve(BeforeOpening { inner, open: false, closed }).await {
        Ok(service) => service.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
        // Some clients start a process only to ask what it speaks.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    hub.shut_down().await;
    served
}

/// Drops what may not come before the first request, which would end the server, and notes the end.
struct BeforeOpening<T> {
    inner: T,
    open: bool,
    closed: Arc<AtomicBool>,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for BeforeOpening<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.closed.store(true, Ordering::SeqCst);
                return None;
            };
            if self.open {
                return Some(message);
            }
            if let ClientJsonRpcMessage::Request(request) = &message {
                let probe = matches!(
                    request.request,
                    ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_)
                );
                self.open = !probe;
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
