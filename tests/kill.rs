//! A run that is killed at any moment is taken up again: no finished step is repeated, and none is lost.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::cli::Project;

/// Kills, unless the variable asks for more.
const KILLS: usize = 200;
const KILLS_VARIABLE: &str = "METIER_SOAK_KILLS";
const PARTS: usize = 24;

/// What the plan is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Steps one after another.
    Flat,
    /// Loops over items.
    Loops,
    /// Steps that run plans.
    Nested,
    /// Steps that only read, side by side, between others.
    SideBySide,
}

const SHAPES: [Shape; 4] = [Shape::Flat, Shape::Loops, Shape::Nested, Shape::SideBySide];

/// A project of one shape, and what became of it.
struct Victim {
    shape: Shape,
    project: Project,
    whole_run: Duration,
    midway: usize,
    ends: usize,
}

#[test]
fn two_hundred_kills_repeat_no_finished_step_and_lose_none() {
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let mut victims = SHAPES.map(Victim::new);
    let enough = std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap());
    let mut kills = 0;
    while kills < enough {
        kills += usize::from(victims[kills / 2 % SHAPES.len()].is_killed(kills % 2 == 0, &mut chance));
    }
    for Victim { shape, project, midway, ends, .. } in &victims {
        assert!(run(project).wait().unwrap().success(), "what is left of {shape:?} still ends well");
        assert_eq!(finished(project).len(), PARTS, "{shape:?}");
        assert!(*midway > 0, "{ends} runs of {shape:?} ended, and no kill met one between its steps");
    }
}

impl Victim {
    fn new(shape: Shape) -> Self {
        let started = Instant::now();
        assert!(run(&project(shape)).wait().unwrap().success(), "{shape:?}");
        Self { shape, project: project(shape), whole_run: started.elapsed(), midway: 0, ends: 0 }
    }

    /// Runs it, and kills it: at some moment, or when it has come a few parts further. Whether it was before it had ended.
    fn is_killed(&mut self, at_some_moment: bool, chance: &mut Chance) -> bool {
        let Self { shape, project, whole_run, .. } = self;
        let (finished_before, done_before) = (finished(project), done(project));
        let mut child = run(project);
        if at_some_moment {
            std::thread::sleep(*whole_run * u32::try_from(chance.below(1000)).unwrap() / 1000);
        } else {
            let enough = finished_before.len() + chance.below(4);
            while finished(project).len() < enough && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        child.kill().unwrap();
        let was_killed = child.wait().unwrap().code().is_none();
        let (finished_after, done_after) = (finished(project), done(project));
        assert!(finished_before.is_subset(&finished_after), "a finished part of {shape:?} was lost");
        for at in (0..PARTS).filter(|at| !shape.only_reads(*at)) {
            let times = done_after[at] - done_before[at];
            let allowed = usize::from(!finished_before.contains(&at));
            assert!(
                times <= allowed,
                "part {at} of {shape:?} ran {times} times in one run, finished before: {}",
                allowed == 0
            );
            assert!(
                !finished_after.contains(&at) || done_after[at] > 0,
                "part {at} of {shape:?} finished without being run"
            );
        }
        self.midway += usize::from(was_killed && !finished_after.is_empty() && finished_after.len() < PARTS);
        if !was_killed {
            assert_eq!(finished_after.len(), PARTS, "a run of {shape:?} that ended has finished all");
            self.ends += 1;
            self.project = self::project(*shape);
        }
        was_killed
    }
}

impl Shape {
    /// Whether that part leaves no trace.
    fn only_reads(self, at: usize) -> bool {
        self == Self::SideBySide && at % 6 > 1
    }

    /// The plan, and one that its steps run.
    fn plans(self) -> (Value, Value) {
        let append = |path: String| json!({"tool": "append", "args": {"path": path, "content": "once\n"}});
        let with_id = |at: usize, mut step: Value| {
            step["id"] = format!("s{at}").into();
            step
        };
        let steps = |count: usize, step: &dyn Fn(usize) -> Value| -> Value {
            (0..count).map(|at| with_id(at, step(at))).collect::<Vec<_>>().into()
        };
        let inner = steps(8, &|at| append(format!("out/${{inputs.ten}}{at}")));
        let plan = match self {
            Self::Flat => steps(PARTS, &|at| append(trace_file(at))),
            Self::Loops => steps(3, &|ten| {
                let items: Vec<usize> = (0..8).collect();
                let step = append(format!("out/{ten}$item"));
                json!({"tool": step["tool"], "args": step["args"], "for_each": items})
            }),
            Self::Nested => steps(3, &|ten| json!({"skill": "y", "args": {"ten": ten.to_string()}})),
            Self::SideBySide => steps(PARTS, &|at| {
                if self.only_reads(at) {
                    return json!({"tool": "grep", "args": {"pattern": "once", "path": "out"}});
                }
                append(trace_file(at))
            }),
        };
        (plan, inner)
    }
}

/// The file that a part leaves a line in.
fn trace_file(at: usize) -> String {
    format!("out/{}{}", at / 8, at % 8)
}

/// A plan of that shape whose parts each leave a line in a file of their own.
fn project(shape: Shape) -> Project {
    let head = |name: &str| format!("---\nname: {name}\ndescription: d\nallowed-tools: write\n---\n");
    let (plan, inner) = shape.plans();
    Project::new()
        .file(".metier/skills/x/SKILL.md", head("x"))
        .file(".metier/skills/x/skill.yaml", json!({"steps": plan}).to_string())
        .file(".metier/skills/y/SKILL.md", head("y"))
        .file(".metier/skills/y/scripts/sequence.json", inner.to_string())
        .file("out/.keep", "")
}

/// Starts a run; all of a project have the same journal.
fn run(project: &Project) -> Child {
    let mut command = project.command(&["run", "x", "--allow", "write", "--journal", "journal"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The parts that have finished, as the whole lines of the journals say, read without the help of what wrote them.
fn finished(project: &Project) -> BTreeSet<usize> {
    let mut finished: BTreeSet<usize> = done_in(project, "x")
        .into_iter()
        .map(|(step, item)| item.map_or(step, |item| step * 8 + item))
        .collect();
    let nested = (0..3).flat_map(|ten| {
        done_in(project, &format!("x.{ten}")).into_iter().map(move |(step, _)| ten * 8 + step)
    });
    let nested: BTreeSet<usize> = nested.collect();
    if !nested.is_empty() {
        for ten in finished {
            let is_whole = (0..8).all(|step| nested.contains(&(ten * 8 + step)));
            assert!(is_whole, "step {ten} finished before the plan that it runs");
        }
        finished = nested;
    }
    finished
}

/// The steps and items that one journal says are done.
fn done_in(project: &Project, journal: &str) -> BTreeSet<(usize, Option<usize>)> {
    let text = std::fs::read(project.path(&format!("journal/{journal}.journal"))).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut done = BTreeSet::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let record = line.split_once(' ').and_then(|(_, rest)| rest.split(['\t', '\n']).next()).unwrap();
        let record: Value = serde_json::from_str(record).unwrap();
        let number = |key: &str| record[key].as_u64().map(|number| usize::try_from(number).unwrap());
        if record["state"] == "done" {
            let part = (number("step").unwrap(), number("item"));
            assert!(done.insert(part), "{part:?} of {journal} was written down twice");
        }
    }
    done
}

/// How often each part did its work.
fn done(project: &Project) -> Vec<usize> {
    let text = |at| std::fs::read_to_string(project.path(&trace_file(at))).unwrap_or_default();
    (0..PARTS).map(|at| text(at).lines().count()).collect()
}

/// Numbers that look like chance, the same in every run of the test.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}
