//! Which addresses are not the public internet: the special-purpose registries of IANA (RFC 6890) as two tables, with the services
//! that clouds have at public addresses for their own machines, and the addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// First address, length of the prefix, what lies there.
type Block<A> = (A, u32, &'static str);

const LOOPBACK: &str = "a loopback address";
const LINK_LOCAL: &str = "a link-local address";
const PRIVATE: &str = "a private address";
const MULTICAST: &str = "a multicast address";
const UNSPECIFIED: &str = "an unspecified address";
const DOCUMENTATION: &str = "an address for documentation";
const RESERVED: &str = "a reserved address";
const CLOUD: &str = "an address of a cloud for its own machines";
const OWN: &str = "an address of this machine";

const NON_PUBLIC_V4: [Block<Ipv4Addr>; 18] = [
    (Ipv4Addr::UNSPECIFIED, 8, UNSPECIFIED),
    (Ipv4Addr::new(10, 0, 0, 0), 8, PRIVATE),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a shared address of a carrier"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK),
    // The private services of IBM's cloud.
    (Ipv4Addr::new(161, 26, 0, 0), 16, CLOUD),
    (Ipv4Addr::new(166, 8, 0, 0), 14, CLOUD),
    // Azure: the agent of each machine gets its secrets there.
    (Ipv4Addr::new(168, 63, 129, 16), 32, CLOUD),
    (Ipv4Addr::new(169, 254, 0, 0), 16, LINK_LOCAL),
    (Ipv4Addr::new(172, 16, 0, 0), 12, PRIVATE),
    (Ipv4Addr::new(192, 0, 0, 0), 24, RESERVED),
    (Ipv4Addr::new(192, 0, 2, 0), 24, DOCUMENTATION),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "an address of a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, PRIVATE),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "an address for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, DOCUMENTATION),
    (Ipv4Addr::new(203, 0, 113, 0), 24, DOCUMENTATION),
    (Ipv4Addr::new(224, 0, 0, 0), 4, MULTICAST),
    (Ipv4Addr::new(240, 0, 0, 0), 4, RESERVED),
];

/// Tried in order. Beyond these only `2000::/3` is open: nothing else was ever given out.
const NON_PUBLIC_V6: [Block<Ipv6Addr>; 9] = [
    (Ipv6Addr::LOCALHOST, 128, LOOPBACK),
    (Ipv6Addr::UNSPECIFIED, 128, UNSPECIFIED),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, PRIVATE),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, LINK_LOCAL),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, PRIVATE),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, MULTICAST),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, RESERVED),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, DOCUMENTATION),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, DOCUMENTATION),
];
const GLOBAL_UNICAST: Block<Ipv6Addr> = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, "");

/// Blocks whose addresses carry an IPv4 address, and the bits that follow it: mapped, NAT64, 6to4.
const IPV4_IN_IPV6: [(Ipv6Addr, u32, u32); 3] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 0),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 0),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 80),
];

/// What lies at an address, in words, unless it is the public internet. A public address of this machine is not: services that
/// listen at all addresses are reached through it, also those that no other machine may reach.
pub fn non_public_kind(address: IpAddr) -> Option<&'static str> {
    listed_kind(address).or_else(|| is_own_address(address).then_some(OWN))
}

fn listed_kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => non_public_kind_v4(address),
        IpAddr::V6(address) => non_public_kind_v6(address),
    }
}

/// Whether a socket of this machine can have the address. Nothing is sent.
fn is_own_address(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let (anywhere, nowhere): (IpAddr, IpAddr) = if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into())
    } else {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    };
    let can_have = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Where the system gives sockets every address (`ip_nonlocal_bind`), it still says from which one it would send there: from that
    // very address if it is its own. The port does not matter.
    let is_source = || {
        let source = UdpSocket::bind((anywhere, 0)).and_then(|socket| {
            socket.connect((address, 9))?;
            socket.local_addr()
        });
        source.is_ok_and(|source| source.ip().to_canonical() == address)
    };
    can_have(address) && (!can_have(nowhere) || is_source())
}

fn non_public_kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    let lies_in =
        |first: Ipv4Addr, length: u32| (address.to_bits() ^ first.to_bits()).leading_zeros() >= length;
    NON_PUBLIC_V4.into_iter().find(|(first, length, _)| lies_in(*first, *length)).map(|(.., what)| what)
}

fn non_public_kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    let lies_in =
        |first: Ipv6Addr, length: u32| (address.to_bits() ^ first.to_bits()).leading_zeros() >= length;
    if let Some((.., behind)) = IPV4_IN_IPV6.into_iter().find(|(first, length, _)| lies_in(*first, *length)) {
        #[allow(clippy::cast_possible_truncation)] // the last 32 bits are what is wanted
        let carried = (address.to_bits() >> behind) as u32;
        return non_public_kind_v4(Ipv4Addr::from_bits(carried));
    }
    let closed = NON_PUBLIC_V6.into_iter().find(|(first, length, _)| lies_in(*first, *length));
    let is_given_out = lies_in(GLOBAL_UNICAST.0, GLOBAL_UNICAST.1);
    closed.map(|(.., what)| what).or((!is_given_out).then_some(RESERVED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_public_internet_is_open() {
        for (address, what) in [
            ("127.0.0.1", LOOPBACK),
            ("127.255.255.254", LOOPBACK),
            ("0.0.0.0", UNSPECIFIED),
            ("0.1.2.3", UNSPECIFIED),
            ("10.0.0.1", PRIVATE),
            ("172.16.0.1", PRIVATE),
            ("172.31.255.255", PRIVATE),
            ("192.168.1.1", PRIVATE),
            ("169.254.169.254", LINK_LOCAL),
            ("168.63.129.16", CLOUD),
            ("161.26.0.10", CLOUD),
            ("166.9.1.1", CLOUD),
            ("100.100.100.200", "a shared address of a carrier"),
            ("192.0.0.192", RESERVED),
            ("169.254.0.23", LINK_LOCAL),
            ("fe80::a9fe:a9fe", LINK_LOCAL),
            ("fd00:c1::a9fe:a9fe", PRIVATE),
            ("fd20:ce::254", PRIVATE),
            ("fd00:42::42", PRIVATE),
            ("::ffff:168.63.129.16", CLOUD),
            ("64:ff9b::168.63.129.16", CLOUD),
            ("2002:a83f:8110::", CLOUD),
            ("100.64.0.1", "a shared address of a carrier"),
            ("100.127.255.255", "a shared address of a carrier"),
            ("192.0.0.1", RESERVED),
            ("192.0.2.1", DOCUMENTATION),
            ("198.51.100.1", DOCUMENTATION),
            ("203.0.113.1", DOCUMENTATION),
            ("198.19.255.255", "an address for benchmarks"),
            ("224.0.0.1", MULTICAST),
            ("255.255.255.255", RESERVED),
            ("::1", LOOPBACK),
            ("::", UNSPECIFIED),
            ("fe80::1", LINK_LOCAL),
            ("febf::1", LINK_LOCAL),
            ("fec0::1", PRIVATE),
            ("fc00::1", PRIVATE),
            ("fd00:ec2::254", PRIVATE),
            ("ff02::1", MULTICAST),
            ("2001:db8::1", DOCUMENTATION),
            ("3fff::1", DOCUMENTATION),
            ("2001::1", RESERVED),
            ("100::1", RESERVED),
            ("4000::1", RESERVED),
            ("64:ff9b:1::1", RESERVED),
        ] {
            assert_eq!(non_public_kind(address.parse().unwrap()), Some(what), "{address}");
        }
        for address in
            ["1.1.1.1", "9.255.255.255", "11.0.0.0", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1"]
        {
            assert_eq!(non_public_kind(address.parse().unwrap()), None, "{address}");
        }
        for address in ["2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888"] {
            assert_eq!(non_public_kind(address.parse().unwrap()), None, "{address}");
        }
    }

    /// The special-purpose registries of IANA, each block by its first and its last address, and the open ones beside it.
    #[test]
    fn every_block_is_closed_from_its_first_address_to_its_last() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("161.26.0.0", "161.26.255.255"),
            ("166.8.0.0", "166.11.255.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            let [first, last]: [Ipv4Addr; 2] = [first, last].map(|address| address.parse().unwrap());
            let middle = first.to_bits() + (last.to_bits() - first.to_bits()) / 2;
            for inside in [first.to_bits(), middle, last.to_bits()] {
                let address = Ipv4Addr::from_bits(inside);
                assert!(non_public_kind(address.into()).is_some(), "{address}");
                for carrier in [address.to_ipv6_mapped().to_string(), format!("64:ff9b::{address}")] {
                    assert!(non_public_kind(carrier.parse().unwrap()).is_some(), "{carrier}");
                }
            }
            let beside = [first.to_bits().checked_sub(1), last.to_bits().checked_add(1)];
            for outside in beside.into_iter().flatten().map(Ipv4Addr::from_bits) {
                assert_eq!(non_public_kind(outside.into()), None, "{outside}");
            }
        }
        for (first, last) in [
            ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            for inside in [first, last] {
                assert!(non_public_kind(inside.parse().unwrap()).is_some(), "{inside}");
            }
        }
        for outside in ["2001:200::", "2001:db7:ffff::", "2001:db9::", "3ffe:ffff::", "3fff:1000::"] {
            assert_eq!(non_public_kind(outside.parse().unwrap()), None, "{outside}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_known_without_a_list_of_them() {
        // The loopback addresses stand for all that lead back.
        for own in ["127.0.0.1", "::ffff:127.0.0.1"] {
            assert!(is_own_address(own.parse().unwrap()), "{own}");
        }
        for other in ["1.1.1.1", "198.51.100.1", "2606:4700:4700::1111", "203.0.113.7"] {
            assert!(!is_own_address(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn an_address_inside_another_is_judged_as_itself() {
        for (address, what) in [
            ("::ffff:127.0.0.1", Some(LOOPBACK)),
            ("::ffff:169.254.169.254", Some(LINK_LOCAL)),
            ("::ffff:1.1.1.1", None),
            ("64:ff9b::10.0.0.1", Some(PRIVATE)),
            ("64:ff9b::1.1.1.1", None),
            ("2002:7f00:1::", Some(LOOPBACK)),
            ("2002:a9fe:a9fe::1", Some(LINK_LOCAL)),
            ("2002:101:101::1", None),
            ("::127.0.0.1", Some(RESERVED)),
            ("::1.1.1.1", Some(RESERVED)),
            ("2001:0:7f00:1::", Some(RESERVED)),
        ] {
            assert_eq!(non_public_kind(address.parse().unwrap()), what, "{address}");
        }
    }
}
