//! The network of a script that reaches granted hosts only: a namespace of its own, without a way out.
//!
//! Its only sockets that lead anywhere are made here, before the script starts, and handed to the host program, which serves them:
//! a resolver, and a listener for each granted port. Which host is meant, the host program sees by the local address of a
//! connection; so all of 198.18.0.0/15 are addresses of this network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::landlock::NETWORK_FILES;
use super::mounts::cover_files;
use super::netlink::RouteSocket;
use crate::linux::fd_passing::send_fds;
use crate::{EgressSockets, MAX_EGRESS_PORTS};

/// Where the resolver listens: also where programs ask that find no `resolv.conf`.
const RESOLVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// The addresses that stand for granted names (RFC 2544), which nobody uses on the internet.
const NAME_ADDRESSES: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 256;

/// Sets up the network namespace of this process, which must be new, and sends its sockets to `host`: the resolver's two, and then
/// one for each port.
pub(crate) fn set_up(sockets: &EgressSockets, host: &OwnedFd) -> io::Result<()> {
    if sockets.ports.len() > MAX_EGRESS_PORTS {
        return Err(Errno::TOOMANYREFS.into());
    }
    let routes = RouteSocket::open()?;
    if routes.is_loopback_up()? {
        // This is the network of somebody else.
        return Err(Errno::PERM.into());
    }
    routes.raise_loopback()?;
    routes.add_local_route(NAME_ADDRESSES.0.into(), NAME_ADDRESSES.1)?;
    for address in &sockets.addresses {
        let prefix_length = if address.is_ipv4() { 32 } else { 128 };
        match routes.add_local_route(*address, prefix_length) {
            // Every address of the loopback interface is there already.
            Err(Errno::EXIST) => {}
            // The kernel has no IPv6: nothing reaches that address.
            Err(_) if address.is_ipv6() => {}
            added => added?,
        }
    }
    cover_files(&config_files())?;
    // A listener at all addresses takes the place of the resolver's: the host program sees which of them was connected to.
    let (resolver_ports, ports): (Vec<u16>, Vec<u16>) =
        sockets.ports.iter().partition(|port| **port == RESOLVER.port());
    let streams = match resolver_ports.first() {
        Some(port) => listener(*port)?,
        None => resolver_socket(SocketType::STREAM)?,
    };
    let mut made = vec![resolver_socket(SocketType::DGRAM)?, streams];
    for port in ports {
        made.push(listener(port)?);
    }
    send_fds(host, &made)
}

/// The content of these files. Those that do not exist need no cover: without them, programs ask the resolver.
fn config_files() -> [(&'static str, String); 3] {
    let uname = rustix::system::uname();
    let is_name =
        |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let own_name = uname.nodename().to_str().ok().filter(is_name).unwrap_or_default();
    let [resolver, hosts, order] = NETWORK_FILES;
    [
        // The name of the machine could have a domain, in which all names would be looked up as well.
        (resolver, "nameserver 127.0.0.1\nsearch .\n".into()),
        (hosts, format!("127.0.0.1 localhost {own_name}\n::1 localhost\n")),
        (
            order,
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n".into(),
        ),
    ]
}

fn resolver_socket(kind: SocketType) -> io::Result<OwnedFd> {
    let made = new_socket(AddressFamily::INET, kind)?;
    bind(&made, &RESOLVER)?;
    if kind == SocketType::STREAM {
        listen(&made, BACKLOG)?;
    }
    Ok(made)
}

/// Listens at every address, of both families where there are two.
fn listener(port: u16) -> io::Result<OwnedFd> {
    let made = if let Ok(made) = new_socket(AddressFamily::INET6, SocketType::STREAM) {
        sockopt::set_ipv6_v6only(&made, false)?;
        bind(&made, &SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port))?;
        made
    } else {
        let made = new_socket(AddressFamily::INET, SocketType::STREAM)?;
        bind(&made, &SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))?;
        made
    };
    listen(&made, BACKLOG)?;
    Ok(made)
}

fn new_socket(family: AddressFamily, kind: SocketType) -> rustix::io::Result<OwnedFd> {
    socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}
