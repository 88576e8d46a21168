//! The home folder of a run: that of its skill, if it keeps one, or a temporary one.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::hints::user_home::replaced_home_warning;
use crate::home_files::HomeLinks;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::SkillOutput;
use metier_core::host::{RunContext, RunMessages, SkillContext};
use metier_core::policy::{Access, CancelToken};
use metier_state::{SkillState, StateLease, TreeError, excess_error};

/// The state of the skill, if the run may keep it; waits until no other run works on it.
pub fn lease_state(ctx: &SkillContext) -> Result<Option<StateLease>> {
    if !ctx.permissions().allows(&Access::state()) {
        return Ok(None);
    }
    if ctx.extensions().get::<Option<SkillState>>().is_none() && ctx.providers().store.is_some() {
        // The program keeps values elsewhere, and no home folders.
        return Ok(None);
    }
    let Some(state) = skill_state(ctx) else {
        let sentence = format!("the skill {} keeps state, and this program has no place for it", ctx.skill());
        return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(
            "set `EngineBuilder::state`, and a project whose path is UTF-8, or run it without `state`",
        ));
    };
    let mut caller = ctx.caller();
    while let Some(above) = caller {
        let works_on_it = above.permissions().allows(&Access::state());
        if works_on_it && skill_state(above).is_some_and(|theirs| theirs.is_same(state)) {
            let sentence = format!(
                "the skill {} calls itself while it works on its state, which only one run at a time may",
                state.skill()
            );
            return Err(SkillError::new(ErrorKind::Unavailable, sentence));
        }
        caller = above.caller();
    }
    StateLease::acquire(state, &|| ctx.cancel().check()).map(Some)
}

fn skill_state(ctx: &SkillContext) -> Option<&SkillState> {
    ctx.extensions().get::<Option<SkillState>>()?.as_ref()
}

/// The error if a script would see the home of its skill within another folder, where the sandbox hides it.
pub(super) fn require_outside(home: &Path, folders: &[&Path]) -> Result<()> {
    let real = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let is_inside = |folder: &&&Path| home.starts_with(folder) || real.starts_with(folder);
    let Some(folder) = folders.iter().find(is_inside) else { return Ok(()) };
    let sentence = format!(
        "the state of the skill cannot be kept: its folder lies in {}, which the script may read",
        folder.display()
    );
    Err(SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help("set METIER_DATA_DIR to a folder of your own that is outside of it"))
}

/// Does the work with a token that also stops when the state holds more than may be kept. Returns what the work did, and the error of
/// the state.
pub fn watch_state<T>(
    lease: Option<&StateLease>,
    ctx: &SkillContext,
    work: impl FnOnce(&CancelToken) -> T,
) -> (T, Option<SkillError>) {
    /// The time between two walks, and how much longer it is than the walk before.
    const MIN_PAUSE: Duration = Duration::from_millis(500);
    const PAUSE_FACTOR: u32 = 20;
    let Some(lease) = lease else { return (work(ctx.cancel()), None) };
    let (token, max_bytes) = (ctx.cancel().child(), ctx.limits().state_size);
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        let stop = token.clone();
        let watch = scope.spawn(move || {
            let mut pause = MIN_PAUSE;
            while is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                if let Err(TreeError::Excess(excess)) = lease.measure(max_bytes) {
                    stop.cancel();
                    return Some(excess);
                }
                pause = MIN_PAUSE.max(began.elapsed() * PAUSE_FACTOR);
            }
            None
        });
        let done = work(&token);
        drop(over);
        let excess = watch.join().ok().flatten();
        (done, excess.map(|excess| excess_error(ctx.skill(), excess)))
    })
}

/// Makes what a run left in the home of its skill its state: of a run that ended by itself, whatever its exit code. One that was
/// stopped, or exceeded a limit, leaves the previous state.
pub fn keep_state(
    lease: Option<StateLease>,
    ctx: &SkillContext,
    result: Result<SkillOutput>,
) -> Result<SkillOutput> {
    let Some(lease) = lease else { return result };
    let was_stopped = |error: &SkillError| {
        use ErrorKind::{Io, OutsideProject, SandboxUnavailable, Unavailable};
        let kind = error.kind();
        kind.is_limit() || matches!(kind, Io | OutsideProject | SandboxUnavailable | Unavailable)
    };
    if ctx.cancel().cause().is_some() || result.as_ref().is_err_and(was_stopped) {
        return result;
    }
    match lease.keep(ctx.limits().state_size) {
        Ok(removed) if removed.is_empty() => result,
        Ok(removed) => {
            ctx.warn(format!(
                "what the skill keeps holds files only, no pipes, sockets or devices; removed: {}",
                removed.join(", ")
            ));
            result
        }
        Err(TreeError::Excess(excess)) => Err(excess_error(ctx.skill(), excess)),
        Err(TreeError::Io(error)) => Err(SkillError::io("failed to keep the state of the skill", error)),
    }
}

/// Warns if a script replaced granted files of the user's home by its own, which are thrown away or kept for itself.
pub(super) fn warn_of_replaced_files(ctx: &SkillContext, links: Option<&HomeLinks>) {
    for path in links.into_iter().flat_map(HomeLinks::replaced_paths) {
        ctx.warn(replaced_home_warning(ctx, path));
    }
}
