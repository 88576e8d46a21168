//! WASI, where it is permitted: clocks and random numbers work, files do not exist.

use std::fmt::Write;

use super::Agreement::{Differs, Failure, Output};
use super::{Agreement, Case, disagreement, hold, text};

/// All of `wasi_snapshot_preview1`: `i` is an `i32`, `I` an `i64`.
const SIGNATURES: &[(&str, &str)] = &[
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("sched_yield", ""),
    ("random_get", "ii"),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// A call of each function, and what it wrote to memory. `$w` puts the number that a function answers with, `$m` eight bytes of
/// memory.
const CALLS: &[(&str, Agreement, &str)] = &[
    ("no arguments and no environment", Output,
        "(call $w (call $args_get (i32.const 1024) (i32.const 1032)))
         (call $w (call $environ_get (i32.const 1024) (i32.const 1032)))
         (call $w (call $args_sizes_get (i32.const 1024) (i32.const 1032)))
         (call $w (call $environ_sizes_get (i32.const 1024) (i32.const 1032)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))"),
    ("how fine the clocks are", Output,
        "(call $w (call $clock_res_get (i32.const 0) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $w (call $clock_res_get (i32.const 1) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $w (call $clock_res_get (i32.const 2) (i32.const 1024)))
         (call $w (call $clock_res_get (i32.const 3) (i32.const 1024)))"),
    ("the clocks", Output,
        "(call $w (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 1024)))
         (call $put32 (i64.gt_u (i64.load (i32.const 1024)) (i64.const 1700000000000000000)))
         (call $w (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 1024)))
         (call $w (call $clock_time_get (i32.const 2) (i64.const 0) (i32.const 1024)))
         (call $w (call $clock_time_get (i32.const 3) (i64.const 0) (i32.const 1024)))"),
    ("random numbers", Output,
        "(call $w (call $random_get (i32.const 1024) (i32.const 8)))
         (call $put32 (i64.ne (i64.load (i32.const 1024)) (i64.const 0)))
         (call $w (call $random_get (i32.const 1024) (i32.const 0)))"),
    (
        "random numbers beyond the end of the memory",
        Failure,
        "(drop (call $random_get (i32.const 262144) (i32.const 1)))",
    ),
    (
        "random numbers across the end of the memory",
        Failure,
        "(drop (call $random_get (i32.const 262143) (i32.const 2)))",
    ),
    ("yielding", Output,
        "(call $w (call $sched_yield ))"),
    ("descriptor 0: what it is", Output,
        "(i64.store (i32.const 1024) (i64.const -1))
         (i64.store (i32.const 1032) (i64.const -1))
         (i64.store (i32.const 1040) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const 0) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))"),
    ("descriptor 0: what file it is", Output,
        "(call $w (call $fd_filestat_get (i32.const 0) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))
         (call $m (i32.const 1048))
         (call $m (i32.const 1056))
         (call $m (i32.const 1064))
         (call $m (i32.const 1072))
         (call $m (i32.const 1080))"),
    ("descriptor 0: preopened", Output,
        "(call $w (call $fd_prestat_get (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_prestat_dir_name (i32.const 0) (i32.const 1024) (i32.const 8)))"),
    ("descriptor 0: written to", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1032) (i64.const 12884902976))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_write (i32.const 0) (i32.const 1024) (i32.const 2) (i32.const 1040)))
         (call $m (i32.const 1040))"),
    ("descriptor 0: read from", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_read (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1040)))
         (call $m (i32.const 1040))
         (call $m (i32.const 1088))"),
    ("descriptor 0: written to and read from at a place", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (call $w (call $fd_pwrite (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))
         (call $w (call $fd_pread (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))"),
    ("descriptor 0: moved about in", Output,
        "(call $w (call $fd_seek (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 0) (i64.const 0) (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 0) (i64.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_tell (i32.const 0) (i32.const 1024)))"),
    ("descriptor 0: kept and changed", Output,
        "(call $w (call $fd_sync (i32.const 0)))
         (call $w (call $fd_datasync (i32.const 0)))
         (call $w (call $fd_advise (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_allocate (i32.const 0) (i64.const 0) (i64.const 1)))
         (call $w (call $fd_filestat_set_size (i32.const 0) (i64.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 3)))
         (call $w (call $fd_fdstat_set_flags (i32.const 0) (i32.const 1)))
         (call $w (call $fd_fdstat_set_rights (i32.const 0) (i64.const 1) (i64.const 1)))"),
    ("descriptor 0: a folder", Output,
        "(call $w (call $fd_readdir (i32.const 0) (i32.const 1024) (i32.const 8) (i64.const 0) (i32.const 1040)))
         (call $w (call $path_open (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1040)))
         (call $w (call $path_create_directory (i32.const 0) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_filestat_get (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032)))
         (call $w (call $path_filestat_set_times (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $path_link (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_readlink (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032) (i32.const 8) (i32.const 1040)))
         (call $w (call $path_remove_directory (i32.const 0) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_rename (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_symlink (i32.const 1024) (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_unlink_file (i32.const 0) (i32.const 1024) (i32.const 1)))"),
    ("descriptor 0: a socket", Output,
        "(call $w (call $sock_accept (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_recv (i32.const 0) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1032)))
         (call $w (call $sock_send (i32.const 0) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_shutdown (i32.const 0) (i32.const 1)))"),
    ("descriptor 0: closed", Output,
        "(call $w (call $fd_close (i32.const 0)))
         (call $w (call $fd_close (i32.const 0)))
         (call $w (call $fd_sync (i32.const 0)))
         (call $w (call $fd_renumber (i32.const 0) (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const 0)))"),
    ("descriptor 1: what it is", Output,
        "(i64.store (i32.const 1024) (i64.const -1))
         (i64.store (i32.const 1032) (i64.const -1))
         (i64.store (i32.const 1040) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const 1) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))"),
    ("descriptor 1: what file it is", Output,
        "(call $w (call $fd_filestat_get (i32.const 1) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))
         (call $m (i32.const 1048))
         (call $m (i32.const 1056))
         (call $m (i32.const 1064))
         (call $m (i32.const 1072))
         (call $m (i32.const 1080))"),
    ("descriptor 1: preopened", Output,
        "(call $w (call $fd_prestat_get (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_prestat_dir_name (i32.const 1) (i32.const 1024) (i32.const 8)))"),
    ("descriptor 1: written to", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1032) (i64.const 12884902976))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 2) (i32.const 1040)))
         (call $m (i32.const 1040))"),
    ("descriptor 1: read from", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_read (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1040)))
         (call $m (i32.const 1040))
         (call $m (i32.const 1088))"),
    ("descriptor 1: written to and read from at a place", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (call $w (call $fd_pwrite (i32.const 1) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))
         (call $w (call $fd_pread (i32.const 1) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))"),
    ("descriptor 1: moved about in", Output,
        "(call $w (call $fd_seek (i32.const 1) (i64.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 1) (i64.const 0) (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 1) (i64.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_tell (i32.const 1) (i32.const 1024)))"),
    ("descriptor 1: kept and changed", Output,
        "(call $w (call $fd_sync (i32.const 1)))
         (call $w (call $fd_datasync (i32.const 1)))
         (call $w (call $fd_advise (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_allocate (i32.const 1) (i64.const 0) (i64.const 1)))
         (call $w (call $fd_filestat_set_size (i32.const 1) (i64.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 3)))
         (call $w (call $fd_fdstat_set_flags (i32.const 1) (i32.const 1)))
         (call $w (call $fd_fdstat_set_rights (i32.const 1) (i64.const 1) (i64.const 1)))"),
    ("descriptor 1: a folder", Output,
        "(call $w (call $fd_readdir (i32.const 1) (i32.const 1024) (i32.const 8) (i64.const 0) (i32.const 1040)))
         (call $w (call $path_open (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1040)))
         (call $w (call $path_create_directory (i32.const 1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_filestat_get (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032)))
         (call $w (call $path_filestat_set_times (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $path_link (i32.const 1) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_readlink (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1032) (i32.const 8) (i32.const 1040)))
         (call $w (call $path_remove_directory (i32.const 1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_rename (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_symlink (i32.const 1024) (i32.const 1) (i32.const 1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_unlink_file (i32.const 1) (i32.const 1024) (i32.const 1)))"),
    ("descriptor 1: a socket", Output,
        "(call $w (call $sock_accept (i32.const 1) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_recv (i32.const 1) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1032)))
         (call $w (call $sock_send (i32.const 1) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_shutdown (i32.const 1) (i32.const 1)))"),
    ("descriptor 1: closed", Output,
        "(call $w (call $fd_close (i32.const 1)))
         (call $w (call $fd_close (i32.const 1)))
         (call $w (call $fd_sync (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const 1)))"),
    ("descriptor 2: what it is", Output,
        "(i64.store (i32.const 1024) (i64.const -1))
         (i64.store (i32.const 1032) (i64.const -1))
         (i64.store (i32.const 1040) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const 2) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))"),
    ("descriptor 2: what file it is", Output,
        "(call $w (call $fd_filestat_get (i32.const 2) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))
         (call $m (i32.const 1048))
         (call $m (i32.const 1056))
         (call $m (i32.const 1064))
         (call $m (i32.const 1072))
         (call $m (i32.const 1080))"),
    ("descriptor 2: preopened", Output,
        "(call $w (call $fd_prestat_get (i32.const 2) (i32.const 1024)))
         (call $w (call $fd_prestat_dir_name (i32.const 2) (i32.const 1024) (i32.const 8)))"),
    ("descriptor 2: written to", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1032) (i64.const 12884902976))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_write (i32.const 2) (i32.const 1024) (i32.const 2) (i32.const 1040)))
         (call $m (i32.const 1040))"),
    ("descriptor 2: read from", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_read (i32.const 2) (i32.const 1024) (i32.const 1) (i32.const 1040)))
         (call $m (i32.const 1040))
         (call $m (i32.const 1088))"),
    ("descriptor 2: written to and read from at a place", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (call $w (call $fd_pwrite (i32.const 2) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))
         (call $w (call $fd_pread (i32.const 2) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))"),
    ("descriptor 2: moved about in", Output,
        "(call $w (call $fd_seek (i32.const 2) (i64.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 2) (i64.const 0) (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 2) (i64.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_tell (i32.const 2) (i32.const 1024)))"),
    ("descriptor 2: kept and changed", Output,
        "(call $w (call $fd_sync (i32.const 2)))
         (call $w (call $fd_datasync (i32.const 2)))
         (call $w (call $fd_advise (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_allocate (i32.const 2) (i64.const 0) (i64.const 1)))
         (call $w (call $fd_filestat_set_size (i32.const 2) (i64.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 3)))
         (call $w (call $fd_fdstat_set_flags (i32.const 2) (i32.const 1)))
         (call $w (call $fd_fdstat_set_rights (i32.const 2) (i64.const 1) (i64.const 1)))"),
    ("descriptor 2: a folder", Output,
        "(call $w (call $fd_readdir (i32.const 2) (i32.const 1024) (i32.const 8) (i64.const 0) (i32.const 1040)))
         (call $w (call $path_open (i32.const 2) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1040)))
         (call $w (call $path_create_directory (i32.const 2) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_filestat_get (i32.const 2) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032)))
         (call $w (call $path_filestat_set_times (i32.const 2) (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $path_link (i32.const 2) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 2) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_readlink (i32.const 2) (i32.const 1024) (i32.const 1) (i32.const 1032) (i32.const 8) (i32.const 1040)))
         (call $w (call $path_remove_directory (i32.const 2) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_rename (i32.const 2) (i32.const 1024) (i32.const 1) (i32.const 2) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_symlink (i32.const 1024) (i32.const 1) (i32.const 2) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_unlink_file (i32.const 2) (i32.const 1024) (i32.const 1)))"),
    ("descriptor 2: a socket", Output,
        "(call $w (call $sock_accept (i32.const 2) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_recv (i32.const 2) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1032)))
         (call $w (call $sock_send (i32.const 2) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_shutdown (i32.const 2) (i32.const 1)))"),
    ("descriptor 2: closed", Output,
        "(call $w (call $fd_close (i32.const 2)))
         (call $w (call $fd_close (i32.const 2)))
         (call $w (call $fd_sync (i32.const 2)))
         (call $w (call $fd_renumber (i32.const 2) (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const 2)))"),
    ("descriptor 3: what it is", Output,
        "(i64.store (i32.const 1024) (i64.const -1))
         (i64.store (i32.const 1032) (i64.const -1))
         (i64.store (i32.const 1040) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const 3) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))"),
    ("descriptor 3: what file it is", Output,
        "(call $w (call $fd_filestat_get (i32.const 3) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))
         (call $m (i32.const 1048))
         (call $m (i32.const 1056))
         (call $m (i32.const 1064))
         (call $m (i32.const 1072))
         (call $m (i32.const 1080))"),
    ("descriptor 3: preopened", Output,
        "(call $w (call $fd_prestat_get (i32.const 3) (i32.const 1024)))
         (call $w (call $fd_prestat_dir_name (i32.const 3) (i32.const 1024) (i32.const 8)))"),
    ("descriptor 3: written to", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1032) (i64.const 12884902976))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_write (i32.const 3) (i32.const 1024) (i32.const 2) (i32.const 1040)))
         (call $m (i32.const 1040))"),
    ("descriptor 3: read from", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_read (i32.const 3) (i32.const 1024) (i32.const 1) (i32.const 1040)))
         (call $m (i32.const 1040))
         (call $m (i32.const 1088))"),
    ("descriptor 3: written to and read from at a place", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (call $w (call $fd_pwrite (i32.const 3) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))
         (call $w (call $fd_pread (i32.const 3) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))"),
    ("descriptor 3: moved about in", Output,
        "(call $w (call $fd_seek (i32.const 3) (i64.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 3) (i64.const 0) (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 3) (i64.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_tell (i32.const 3) (i32.const 1024)))"),
    ("descriptor 3: kept and changed", Output,
        "(call $w (call $fd_sync (i32.const 3)))
         (call $w (call $fd_datasync (i32.const 3)))
         (call $w (call $fd_advise (i32.const 3) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_allocate (i32.const 3) (i64.const 0) (i64.const 1)))
         (call $w (call $fd_filestat_set_size (i32.const 3) (i64.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 3) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 3) (i64.const 0) (i64.const 0) (i32.const 3)))
         (call $w (call $fd_fdstat_set_flags (i32.const 3) (i32.const 1)))
         (call $w (call $fd_fdstat_set_rights (i32.const 3) (i64.const 1) (i64.const 1)))"),
    ("descriptor 3: a folder", Output,
        "(call $w (call $fd_readdir (i32.const 3) (i32.const 1024) (i32.const 8) (i64.const 0) (i32.const 1040)))
         (call $w (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1040)))
         (call $w (call $path_create_directory (i32.const 3) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032)))
         (call $w (call $path_filestat_set_times (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $path_link (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 3) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_readlink (i32.const 3) (i32.const 1024) (i32.const 1) (i32.const 1032) (i32.const 8) (i32.const 1040)))
         (call $w (call $path_remove_directory (i32.const 3) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_rename (i32.const 3) (i32.const 1024) (i32.const 1) (i32.const 3) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_symlink (i32.const 1024) (i32.const 1) (i32.const 3) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_unlink_file (i32.const 3) (i32.const 1024) (i32.const 1)))"),
    ("descriptor 3: a socket", Output,
        "(call $w (call $sock_accept (i32.const 3) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_recv (i32.const 3) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1032)))
         (call $w (call $sock_send (i32.const 3) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_shutdown (i32.const 3) (i32.const 1)))"),
    ("descriptor 3: closed", Output,
        "(call $w (call $fd_close (i32.const 3)))
         (call $w (call $fd_close (i32.const 3)))
         (call $w (call $fd_sync (i32.const 3)))
         (call $w (call $fd_renumber (i32.const 3) (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const 3)))"),
    ("descriptor 100: what it is", Output,
        "(i64.store (i32.const 1024) (i64.const -1))
         (i64.store (i32.const 1032) (i64.const -1))
         (i64.store (i32.const 1040) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const 100) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))"),
    ("descriptor 100: what file it is", Output,
        "(call $w (call $fd_filestat_get (i32.const 100) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))
         (call $m (i32.const 1048))
         (call $m (i32.const 1056))
         (call $m (i32.const 1064))
         (call $m (i32.const 1072))
         (call $m (i32.const 1080))"),
    ("descriptor 100: preopened", Output,
        "(call $w (call $fd_prestat_get (i32.const 100) (i32.const 1024)))
         (call $w (call $fd_prestat_dir_name (i32.const 100) (i32.const 1024) (i32.const 8)))"),
    ("descriptor 100: written to", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1032) (i64.const 12884902976))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_write (i32.const 100) (i32.const 1024) (i32.const 2) (i32.const 1040)))
         (call $m (i32.const 1040))"),
    ("descriptor 100: read from", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_read (i32.const 100) (i32.const 1024) (i32.const 1) (i32.const 1040)))
         (call $m (i32.const 1040))
         (call $m (i32.const 1088))"),
    ("descriptor 100: written to and read from at a place", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (call $w (call $fd_pwrite (i32.const 100) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))
         (call $w (call $fd_pread (i32.const 100) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))"),
    ("descriptor 100: moved about in", Output,
        "(call $w (call $fd_seek (i32.const 100) (i64.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 100) (i64.const 0) (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const 100) (i64.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_tell (i32.const 100) (i32.const 1024)))"),
    ("descriptor 100: kept and changed", Output,
        "(call $w (call $fd_sync (i32.const 100)))
         (call $w (call $fd_datasync (i32.const 100)))
         (call $w (call $fd_advise (i32.const 100) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_allocate (i32.const 100) (i64.const 0) (i64.const 1)))
         (call $w (call $fd_filestat_set_size (i32.const 100) (i64.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 100) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const 100) (i64.const 0) (i64.const 0) (i32.const 3)))
         (call $w (call $fd_fdstat_set_flags (i32.const 100) (i32.const 1)))
         (call $w (call $fd_fdstat_set_rights (i32.const 100) (i64.const 1) (i64.const 1)))"),
    ("descriptor 100: a folder", Output,
        "(call $w (call $fd_readdir (i32.const 100) (i32.const 1024) (i32.const 8) (i64.const 0) (i32.const 1040)))
         (call $w (call $path_open (i32.const 100) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1040)))
         (call $w (call $path_create_directory (i32.const 100) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_filestat_get (i32.const 100) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032)))
         (call $w (call $path_filestat_set_times (i32.const 100) (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $path_link (i32.const 100) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 100) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_readlink (i32.const 100) (i32.const 1024) (i32.const 1) (i32.const 1032) (i32.const 8) (i32.const 1040)))
         (call $w (call $path_remove_directory (i32.const 100) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_rename (i32.const 100) (i32.const 1024) (i32.const 1) (i32.const 100) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_symlink (i32.const 1024) (i32.const 1) (i32.const 100) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_unlink_file (i32.const 100) (i32.const 1024) (i32.const 1)))"),
    ("descriptor 100: a socket", Output,
        "(call $w (call $sock_accept (i32.const 100) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_recv (i32.const 100) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1032)))
         (call $w (call $sock_send (i32.const 100) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_shutdown (i32.const 100) (i32.const 1)))"),
    ("descriptor 100: closed", Output,
        "(call $w (call $fd_close (i32.const 100)))
         (call $w (call $fd_close (i32.const 100)))
         (call $w (call $fd_sync (i32.const 100)))
         (call $w (call $fd_renumber (i32.const 100) (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const 100)))"),
    ("descriptor -1: what it is", Output,
        "(i64.store (i32.const 1024) (i64.const -1))
         (i64.store (i32.const 1032) (i64.const -1))
         (i64.store (i32.const 1040) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const -1) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))"),
    ("descriptor -1: what file it is", Output,
        "(call $w (call $fd_filestat_get (i32.const -1) (i32.const 1024)))
         (call $m (i32.const 1024))
         (call $m (i32.const 1032))
         (call $m (i32.const 1040))
         (call $m (i32.const 1048))
         (call $m (i32.const 1056))
         (call $m (i32.const 1064))
         (call $m (i32.const 1072))
         (call $m (i32.const 1080))"),
    ("descriptor -1: preopened", Output,
        "(call $w (call $fd_prestat_get (i32.const -1) (i32.const 1024)))
         (call $w (call $fd_prestat_dir_name (i32.const -1) (i32.const 1024) (i32.const 8)))"),
    ("descriptor -1: written to", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1032) (i64.const 12884902976))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_write (i32.const -1) (i32.const 1024) (i32.const 2) (i32.const 1040)))
         (call $m (i32.const 1040))"),
    ("descriptor -1: read from", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (i64.store (i32.const 1040) (i64.const 77))
         (call $w (call $fd_read (i32.const -1) (i32.const 1024) (i32.const 1) (i32.const 1040)))
         (call $m (i32.const 1040))
         (call $m (i32.const 1088))"),
    ("descriptor -1: written to and read from at a place", Output,
        "(i64.store (i32.const 1024) (i64.const 21474837568))
         (call $w (call $fd_pwrite (i32.const -1) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))
         (call $w (call $fd_pread (i32.const -1) (i32.const 1024) (i32.const 1) (i64.const 0) (i32.const 1040)))"),
    ("descriptor -1: moved about in", Output,
        "(call $w (call $fd_seek (i32.const -1) (i64.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const -1) (i64.const 0) (i32.const 1) (i32.const 1024)))
         (call $w (call $fd_seek (i32.const -1) (i64.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $fd_tell (i32.const -1) (i32.const 1024)))"),
    ("descriptor -1: kept and changed", Output,
        "(call $w (call $fd_sync (i32.const -1)))
         (call $w (call $fd_datasync (i32.const -1)))
         (call $w (call $fd_advise (i32.const -1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_allocate (i32.const -1) (i64.const 0) (i64.const 1)))
         (call $w (call $fd_filestat_set_size (i32.const -1) (i64.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const -1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $fd_filestat_set_times (i32.const -1) (i64.const 0) (i64.const 0) (i32.const 3)))
         (call $w (call $fd_fdstat_set_flags (i32.const -1) (i32.const 1)))
         (call $w (call $fd_fdstat_set_rights (i32.const -1) (i64.const 1) (i64.const 1)))"),
    ("descriptor -1: a folder", Output,
        "(call $w (call $fd_readdir (i32.const -1) (i32.const 1024) (i32.const 8) (i64.const 0) (i32.const 1040)))
         (call $w (call $path_open (i32.const -1) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1040)))
         (call $w (call $path_create_directory (i32.const -1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_filestat_get (i32.const -1) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1032)))
         (call $w (call $path_filestat_set_times (i32.const -1) (i32.const 0) (i32.const 1024) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0)))
         (call $w (call $path_link (i32.const -1) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const -1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_readlink (i32.const -1) (i32.const 1024) (i32.const 1) (i32.const 1032) (i32.const 8) (i32.const 1040)))
         (call $w (call $path_remove_directory (i32.const -1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_rename (i32.const -1) (i32.const 1024) (i32.const 1) (i32.const -1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_symlink (i32.const 1024) (i32.const 1) (i32.const -1) (i32.const 1024) (i32.const 1)))
         (call $w (call $path_unlink_file (i32.const -1) (i32.const 1024) (i32.const 1)))"),
    ("descriptor -1: a socket", Output,
        "(call $w (call $sock_accept (i32.const -1) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_recv (i32.const -1) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 1032)))
         (call $w (call $sock_send (i32.const -1) (i32.const 1088) (i32.const 0) (i32.const 0) (i32.const 1024)))
         (call $w (call $sock_shutdown (i32.const -1) (i32.const 1)))"),
    ("descriptor -1: closed", Output,
        "(call $w (call $fd_close (i32.const -1)))
         (call $w (call $fd_close (i32.const -1)))
         (call $w (call $fd_sync (i32.const -1)))
         (call $w (call $fd_renumber (i32.const -1) (i32.const 1)))
         (call $w (call $fd_renumber (i32.const 1) (i32.const -1)))"),
    ("a descriptor in the place of another", Output,
        "(call $w (call $fd_renumber (i32.const 0) (i32.const 1)))
         (call $w (call $fd_sync (i32.const 0)))
         (i64.store (i32.const 1024) (i64.const -1))
         (call $w (call $fd_fdstat_get (i32.const 1) (i32.const 1024)))
         (call $m (i32.const 1032))"),
    ("nothing to wait for", Output,
        "(call $w (call $poll_oneoff (i32.const 1024) (i32.const 1088) (i32.const 0) (i32.const 1152)))"),
    ("waiting for a millisecond", Differs("no function waits: the deadline could not stop it"),
        "(i64.store (i32.const 1024) (i64.const 1))
         (i64.store (i32.const 1032) (i64.const 0))
         (i32.store (i32.const 1040) (i32.const 1))
         (i64.store (i32.const 1048) (i64.const 1000000))
         (i64.store (i32.const 1056) (i64.const 0))
         (i64.store (i32.const 1064) (i64.const 0))
         (call $w (call $poll_oneoff (i32.const 1024) (i32.const 1088) (i32.const 1) (i32.const 1152)))"),
    ("leaving with 0, and an output", Output,
        "(call $done)
         (call $proc_exit (i32.const 0))"),
    ("leaving with 7", Failure,
        "(call $done)
         (call $proc_exit (i32.const 7))"),
    ("leaving with a text", Failure,
        "(call $error_set <no luck>)
         (call $proc_exit (i32.const 0))"),
    ("a signal", Failure,
        "(drop (call $proc_raise (i32.const 6)))"),
    ("an address outside of the memory", Failure,
        "(drop (call $args_sizes_get (i32.const -4) (i32.const 0)))"),
    ("an address that is not aligned", Failure,
        "(drop (call $args_sizes_get (i32.const 1) (i32.const 0)))"),
    ("a clock that there is not", Failure,
        "(drop (call $clock_time_get (i32.const 9) (i64.const 0) (i32.const 0)))"),
];

#[test]
fn every_function_of_wasi_does_what_it_does_there() {
    let mut imports = String::new();
    for (name, signature) in SIGNATURES {
        let params: String =
            signature.chars().map(|kind| if kind == 'i' { " i32" } else { " i64" }).collect();
        let result = if *name == "proc_exit" { "" } else { "(result i32)" };
        let _ = writeln!(
            imports,
            r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} (param{params}) {result}))"#
        );
    }
    let helpers = "(func $w (param i32) (call $put32 (local.get 0)))
        (func $m (param i32) (call $put (i64.load (local.get 0))))";
    hold(CALLS.iter().map(|(name, agreement, body)| {
        let module = text::module_with_imports(&imports, helpers, body);
        let case = Case { wasi: true, ..Case::new(module.as_bytes()) };
        ((*name).to_owned(), disagreement(&case, *agreement))
    }));
}
