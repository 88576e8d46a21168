//! A terminal with a person at it, who reads the screen and presses keys.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// How long the screen may take to show something.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command on a terminal of 80 columns.
pub struct Terminal {
    child: Child,
    keyboard: Option<File>,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    is_closed: Arc<AtomicBool>,
    /// Where the part of the screen begins that was not waited for yet.
    seen: usize,
    line: OwnedFd,
}

impl Terminal {
    /// Starts the command with the terminal as its input and both outputs.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with_rows(command, 40)
    }

    /// The same in a window with so many rows.
    pub fn start_with_rows(command: &mut Command, rows: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        tcsetwinsize(&line, Winsize { ws_row: rows, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let own = || line.try_clone().unwrap();
        command.env("TERM", "xterm").env("NO_COLOR", "1").env_remove("CI");
        let child = command.stdin(own()).stdout(own()).stderr(own()).spawn().unwrap();
        // The command keeps copies of the descriptors otherwise.
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let keyboard = File::from(controller);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (mut output, shown, closed) = (keyboard.try_clone().unwrap(), screen.clone(), is_closed.clone());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            while !closed.load(Ordering::SeqCst) {
                if poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&wait)).unwrap() == 0 {
                    continue;
                }
                let Ok(count @ 1..) = output.read(&mut bytes) else { return };
                shown.lock().unwrap().extend(&bytes[..count]);
            }
        });
        Self { child, keyboard: Some(keyboard), screen, reader: Some(reader), is_closed, seen: 0, line }
    }

    /// What is on the screen, lines ended by a line feed alone.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).replace("\r\n", "\n")
    }

    /// Waits until the screen shows this after what was waited for before.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.wait_for_one_of(&[text]);
    }

    /// The same for the first of these texts that is shown; returns which one.
    #[track_caller]
    pub fn wait_for_one_of(&mut self, texts: &[&str]) -> usize {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            let rest = screen.get(self.seen..).unwrap_or_default();
            let found = texts.iter().enumerate().filter_map(|(at, text)| Some((rest.find(text)?, at)));
            if let Some((place, at)) = found.min() {
                self.seen += place + texts[at].len();
                return at;
            }
            assert!(started.elapsed() < PATIENCE, "{texts:?} was never shown: {screen:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Presses keys, all at once.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Whether the terminal shows what is typed, as it does outside of questions.
    pub fn echoes(&self) -> bool {
        tcgetattr(&self.line).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Ends the command's child process by this signal.
    pub fn kill(&self, signal: rustix::process::Signal) {
        let child = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(child, signal).unwrap();
    }

    /// Closes the window; returns the exit code.
    pub fn hang_up(mut self) -> i32 {
        self.is_closed.store(true, Ordering::SeqCst);
        self.reader.take().unwrap().join().unwrap();
        drop(self.keyboard.take());
        self.exit_code()
    }

    fn exit_code(&mut self) -> i32 {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            if started.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end: {:?}", self.screen());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The exit code and the whole screen.
    pub fn finish(mut self) -> (i32, String) {
        let code = self.exit_code();
        assert!(self.echoes(), "the terminal has its settings back");
        drop(self.line);
        // Without anybody at the other end, the reader ends.
        self.reader.take().unwrap().join().unwrap();
        let screen = String::from_utf8_lossy(&self.screen.lock().unwrap()).replace("\r\n", "\n");
        (code, screen)
    }
}
