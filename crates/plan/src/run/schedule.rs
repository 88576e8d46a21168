//! Decides which steps may run next, from nothing but the plan and the steps that have ended.
//!
//! Steps that only read run in parallel if they do not depend on each other. Every other step waits for all steps before it,
//! and all steps after it wait for it.

use std::collections::BTreeSet;

use crate::{Plan, PlanForm, Step};
use metier_core::template::Reference;

/// The schedule of one run.
#[derive(Debug)]
pub struct Schedule {
    /// For each step, the number of its dependencies that have not ended.
    open_dependencies: Vec<usize>,
    /// For each step, the steps that wait for it.
    dependents: Vec<Vec<usize>>,
    is_finished: Vec<bool>,
    /// Steps that run alone, in written order; those before the index `alone` have ended.
    barriers: Vec<usize>,
    next_barrier: usize,
    /// Steps that are not started and wait for no other step.
    ready: BTreeSet<usize>,
    /// All steps before this index have ended.
    first_unfinished: usize,
    running: usize,
    max_running: usize,
}

impl Schedule {
    /// The schedule of a plan, where `is_quiet` decides whether a step only reads.
    pub fn new(plan: &Plan, is_quiet: impl Fn(&Step) -> bool) -> Self {
        let steps = plan.steps();
        let mut schedule = Self {
            open_dependencies: vec![0; steps.len()],
            dependents: vec![Vec::new(); steps.len()],
            is_finished: vec![false; steps.len()],
            barriers: Vec::new(),
            next_barrier: 0,
            ready: BTreeSet::new(),
            first_unfinished: 0,
            running: 0,
            max_running: plan.concurrency(),
        };
        for (at, step) in steps.iter().enumerate() {
            if plan.form() == PlanForm::Sequence || !is_quiet(step) {
                schedule.barriers.push(at);
            }
            let needed = dependencies(plan, step);
            schedule.open_dependencies[at] = needed.len();
            for earlier in needed {
                schedule.dependents[earlier].push(at);
            }
            if schedule.open_dependencies[at] == 0 {
                schedule.ready.insert(at);
            }
        }
        schedule
    }

    /// The next step to start, which then counts as running; `None` if all steps must wait.
    pub fn start(&mut self) -> Option<usize> {
        let at = self.next_step()?;
        self.ready.remove(&at);
        self.running += 1;
        Some(at)
    }

    /// The number of steps that may start now.
    pub(crate) fn startable(&self) -> usize {
        match self.barriers.get(self.next_barrier) {
            Some(barrier) if self.ready.first() == Some(barrier) => usize::from(self.next_step().is_some()),
            barrier => {
                let before = |at: &&usize| barrier.is_none_or(|barrier| *at < barrier);
                self.ready
                    .iter()
                    .take_while(before)
                    .take(self.max_running - self.running.min(self.max_running))
                    .count()
            }
        }
    }

    /// Whether a started step has not ended.
    pub(crate) fn has_running_steps(&self) -> bool {
        self.running > 0
    }

    fn next_step(&self) -> Option<usize> {
        let at = *self.ready.first()?;
        let may_start = match self.barriers.get(self.next_barrier) {
            Some(barrier) if at == *barrier => self.running == 0 && self.first_unfinished == at,
            Some(barrier) if at > *barrier => false,
            _ => self.running < self.max_running,
        };
        may_start.then_some(at)
    }

    /// Marks a started step as ended, whatever its result.
    pub fn end(&mut self, at: usize) {
        if std::mem::replace(&mut self.is_finished[at], true) {
            return;
        }
        self.running -= 1;
        if self.barriers.get(self.next_barrier) == Some(&at) {
            self.next_barrier += 1;
        }
        while self.is_finished.get(self.first_unfinished) == Some(&true) {
            self.first_unfinished += 1;
        }
        for follower in std::mem::take(&mut self.dependents[at]) {
            self.open_dependencies[follower] -= 1;
            if self.open_dependencies[follower] == 0 {
                self.ready.insert(follower);
            }
        }
    }
}

/// The earlier steps that a step refers to or comes after.
fn dependencies(plan: &Plan, step: &Step) -> BTreeSet<usize> {
    let mut needed: BTreeSet<usize> = step.after.iter().filter_map(|id| plan.step_index(id)).collect();
    let mut note = |reference: &Reference| needed.extend(plan.referenced_step(&reference.root));
    step.args
        .iter()
        .for_each(|parameter| parameter.value.visit_references(&mut |reference, _| note(reference)));
    if let Some(each) = &step.for_each {
        each.list.visit_references(&mut |reference, _| note(reference));
    }
    step.when.iter().flat_map(|when| when.references()).for_each(note);
    needed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::from_contract;

    fn plan(yaml: &str) -> Plan {
        from_contract(yaml.as_bytes(), "skill.yaml").unwrap().unwrap()
    }

    /// The steps that run at the same time, round by round, if all steps of a round end together.
    fn rounds(plan: &Plan, is_quiet: impl Fn(&Step) -> bool) -> Vec<Vec<usize>> {
        let mut schedule = Schedule::new(plan, is_quiet);
        let mut rounds = Vec::new();
        loop {
            let startable = schedule.startable();
            let round: Vec<usize> = std::iter::from_fn(|| schedule.start()).collect();
            assert_eq!(round.len(), startable);
            if round.is_empty() {
                return rounds;
            }
            for at in &round {
                schedule.end(*at);
            }
            rounds.push(round);
        }
    }

    const FOUR: &str = "
steps:
  - {id: a, tool: glob, args: {pattern: '*'}}
  - {id: b, tool: glob, args: {pattern: '*'}}
  - {id: c, tool: write, args: {path: x, content: $steps.a.outputs}}
  - {id: d, tool: glob, args: {pattern: '*'}}
";

    #[test]
    fn what_only_reads_runs_side_by_side_and_the_rest_alone_in_its_place() {
        let is_quiet = |step: &Step| step.id != "c";
        assert_eq!(rounds(&plan(FOUR), is_quiet), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(rounds(&plan(FOUR), |_| true), [vec![0, 1, 3], vec![2]], "c waits for a");
        assert_eq!(rounds(&plan(FOUR), |_| false), [vec![0], vec![1], vec![2], vec![3]]);
        let one = format!("{FOUR}\nconcurrency: 1\n");
        assert_eq!(rounds(&plan(&one), |_| true), [vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn after_links_what_no_reference_links() {
        let yaml = "
steps:
  - {id: a, tool: log, args: {level: info, message: a}}
  - {id: b, tool: log, args: {level: info, message: b}, after: a}
  - {id: c, tool: log, args: {level: info, message: c}, when: $steps.b.outputs}
";
        assert_eq!(rounds(&plan(yaml), |_| true), [vec![0], vec![1], vec![2]]);
    }

    proptest! {
        #[test]
        fn whatever_the_links_every_step_starts_once_after_what_it_needs(
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec(0_usize..40, 0..4)), 1..40),
            concurrency in 1..=16_usize,
        ) {
            let lines: Vec<String> = steps.iter().enumerate().map(|(at, (_, after))| {
                let after: Vec<String> = after.iter().filter(|earlier| **earlier < at).map(|earlier| format!("s{earlier}")).collect();
                format!("- {{id: s{at}, tool: tree, after: [{}]}}", after.join(", "))
            }).collect();
            let plan = plan(&format!("concurrency: {concurrency}\nsteps:\n{}", lines.join("\n")));
            let quiet = |step: &Step| steps[plan.step_index(&step.id).unwrap()].0;
            let mut ended = std::collections::HashSet::new();
            for round in rounds(&plan, quiet) {
                prop_assert!(round.len() <= concurrency);
                let alone = round.iter().any(|at| !steps[*at].0);
                prop_assert!(!alone || round.len() == 1);
                for at in &round {
                    prop_assert!(steps[*at].1.iter().filter(|earlier| *earlier < at).all(|earlier| ended.contains(earlier)));
                    if alone {
                        prop_assert!((0..*at).all(|earlier| ended.contains(&earlier)));
                    }
                }
                ended.extend(round);
            }
            prop_assert_eq!(ended.len(), steps.len());
        }
    }
}
