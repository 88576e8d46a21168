//! A connection to the resolver: queries with their lengths, one after the other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::dns_message::MAX_QUERY_BYTES;

/// How long it may stay open.
const MAX_TIME: Duration = Duration::from_secs(10);

pub(super) struct DnsConnection {
    pub(super) stream: TcpStream,
    received: Vec<u8>,
    pub(super) ends_at: Instant,
}

impl DnsConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), ends_at: Instant::now() + MAX_TIME }
    }

    /// Answers the queries that have arrived. Returns whether the connection goes on.
    pub(super) fn advance(
        &mut self,
        buffer: &mut [u8],
        mut answer: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> bool {
        match (&self.stream).read(buffer) {
            Ok(0) => return false,
            Ok(count) => self.received.extend(&buffer[..count]),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
        while let Some((header, rest)) = self.received.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*header));
            if length > MAX_QUERY_BYTES {
                return false;
            }
            let Some(query) = rest.get(..length) else { return true };
            let Some(answer) = answer(query) else { return false };
            let length = u16::try_from(answer.len()).unwrap_or(u16::MAX).to_be_bytes();
            let message = [&length[..], &answer].concat();
            // A script that reads no answers gets none.
            if (&self.stream).write(&message).ok() != Some(message.len()) {
                return false;
            }
            self.received.drain(..2 + query.len());
        }
        true
    }
}
