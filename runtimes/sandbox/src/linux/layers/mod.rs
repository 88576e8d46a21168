//! The restrictions of the kernel, one file each.

pub(super) mod capabilities;
pub(super) mod egress;
pub(super) mod landlock;
pub(super) mod mount_clone;
pub(super) mod mount_root;
pub(super) mod mount_table;
pub(super) mod mounts;
pub(super) mod namespaces;
pub(super) mod netlink;
pub(super) mod private_folders;
pub(super) mod seccomp;
