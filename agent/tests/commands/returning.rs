//! R4: agents that lose their server at one instant do not try again at one instant. How a fleet
//! comes back is in `core/src/delivery/simulation/returning.rs`, in simulated time; here it is seen
//! of the program, and of one that does not wait at random.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::rig::{Rig, sabotaged};

const AGENTS: usize = 10;
/// The first wait is random between one second and four; without jitter it is one second.
const SHORT: Duration = Duration::from_millis(1_600);
/// A transport whose connection ends while the stream is opened makes another one at once.
const ONE_TRY: Duration = Duration::from_millis(500);
/// So many short ones are no chance: it happens once in ten thousand runs.
const IN_STEP: usize = 8;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long each agent waits after its first stream was closed.
fn waits(command: impl Fn(&Rig, &[&str]) -> Command) -> Vec<Duration> {
    let rigs: Vec<Rig> = (0..AGENTS).map(|_| Rig::of_cards("T4", 0, "")).collect();
    let listeners: Vec<_> =
        rigs.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let start = |(rig, listener): (&Rig, &TcpListener)| {
        let server = format!("http://{}", listener.local_addr().unwrap());
        let state_dir = rig.state_dir().display().to_string();
        let mut command = command(rig, &["run", "--server", &server, "--state-dir", &state_dir]);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let _agents: Vec<Running> = rigs.iter().zip(&listeners).map(start).collect();
    let wait = |listener: TcpListener| {
        drop(listener.accept().unwrap());
        let mut lost = Instant::now();
        loop {
            drop(listener.accept().unwrap());
            if lost.elapsed() >= ONE_TRY {
                return lost.elapsed();
            }
            lost = Instant::now();
        }
    };
    let waiting: Vec<_> =
        listeners.into_iter().map(|listener| thread::spawn(move || wait(listener))).collect();
    waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect()
}

fn short(waits: &[Duration]) -> usize {
    assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(900)), "{waits:?}");
    waits.iter().filter(|wait| **wait < SHORT).count()
}

#[test]
fn agents_that_lose_their_server_do_not_come_back_at_one_instant() {
    let waits = waits(|rig, words| rig.command(words));
    assert!(short(&waits) < IN_STEP, "{waits:?}");
}

#[test]
fn agents_that_wait_alike_are_noticed() {
    let waits = waits(|rig, words| {
        let mut command = rig.command_of(&sabotaged(), words);
        command.env("LEASEWATCH_SABOTAGE", "no_jitter");
        command
    });
    assert!(short(&waits) >= IN_STEP, "{waits:?}");
}
