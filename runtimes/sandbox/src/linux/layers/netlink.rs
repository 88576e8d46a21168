//! A few requests to the kernel about the network of this process (rtnetlink): raising the loopback interface, and routes to it.

use std::net::IpAddr;

use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::os::fd::OwnedFd;

/// A connection to the kernel.
pub(super) struct RouteSocket(OwnedFd);

/// The loopback interface, the first of every network namespace.
const LOOPBACK_INDEX: u32 = 1;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

const IFF_UP: u32 = 1;

/// The length of the header of a message.
const HEADER_BYTES: usize = 16;

impl RouteSocket {
    pub(super) fn open() -> Result<Self> {
        // The protocol 0 is that of addresses and routes.
        let flags = SocketFlags::CLOEXEC;
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?))
    }

    /// Whether the loopback interface is up, as it is in the network of a machine and not in a new one.
    pub(super) fn is_loopback_up(&self) -> Result<bool> {
        let (kind, body) = self.exchange(RTM_GETLINK, REQUEST, &link_message(0, 0))?;
        match kind {
            // Behind family, type and index.
            RTM_NEWLINK => Ok(number(&body, 8)? & IFF_UP != 0),
            _ => Err(Errno::PROTO),
        }
    }

    pub(super) fn raise_loopback(&self) -> Result<()> {
        self.change(RTM_NEWLINK, REQUEST | ACKNOWLEDGE, &link_message(IFF_UP, IFF_UP))
    }

    /// Makes all addresses with this prefix addresses of this network: what is sent to them arrives at the loopback interface.
    pub(super) fn add_local_route(&self, address: IpAddr, prefix_length: u8) -> Result<()> {
        const TABLE_LOCAL: u8 = 255;
        const PROTOCOL_BOOT: u8 = 3;
        const SCOPE_HOST: u8 = 254;
        const TYPE_LOCAL: u8 = 2;
        const ATTRIBUTE_DESTINATION: u16 = 1;
        const ATTRIBUTE_INTERFACE: u16 = 4;
        let (family, bytes) = match address {
            IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
            IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
        };
        let family = u8::try_from(family.as_raw()).map_err(|_| Errno::AFNOSUPPORT)?;
        let mut message =
            vec![family, prefix_length, 0, 0, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL, 0, 0, 0, 0];
        push_attribute(&mut message, ATTRIBUTE_DESTINATION, &bytes);
        push_attribute(&mut message, ATTRIBUTE_INTERFACE, &LOOPBACK_INDEX.to_ne_bytes());
        self.change(RTM_NEWROUTE, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, &message)
    }

    /// Sends a request that is answered by an error number, which is zero if there is no error.
    fn change(&self, kind: u16, flags: u16, message: &[u8]) -> Result<()> {
        let (kind, _) = self.exchange(kind, flags, message)?;
        if kind == NLMSG_ERROR { Ok(()) } else { Err(Errno::PROTO) }
    }

    /// The type and the body of the answer.
    fn exchange(&self, kind: u16, flags: u16, message: &[u8]) -> Result<(u16, Vec<u8>)> {
        let length = u32::try_from(HEADER_BYTES + message.len()).map_err(|_| Errno::MSGSIZE)?;
        let mut request = length.to_ne_bytes().to_vec();
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        // The sequence number, and the sender, whom the kernel knows.
        request.extend([0; 8]);
        request.extend(message);
        send(&self.0, &request, SendFlags::empty())?;
        let mut answer = vec![0; 16 << 10];
        let (length, _) = recv(&self.0, &mut answer, RecvFlags::empty())?;
        answer.truncate(length);
        let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        let (kind, body) = (kind.ok_or(Errno::PROTO)?, answer.split_off(HEADER_BYTES.min(length)));
        if kind == NLMSG_ERROR {
            let error = number(&body, 0)?.cast_signed();
            if error != 0 {
                return Err(Errno::from_raw_os_error(error.saturating_neg()));
            }
        }
        Ok((kind, body))
    }
}

/// The message about the loopback interface, with these flags, of which these are to change.
fn link_message(flags: u32, change: u32) -> Vec<u8> {
    let mut message = vec![0; 4];
    for value in [LOOPBACK_INDEX, flags, change] {
        message.extend(value.to_ne_bytes());
    }
    message
}

/// The number at this position.
fn number(body: &[u8], at: usize) -> Result<u32> {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_ne_bytes).ok_or(Errno::PROTO)
}

fn push_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    // Every value here is a multiple of four bytes long, so no padding follows.
    message.extend(value);
}
