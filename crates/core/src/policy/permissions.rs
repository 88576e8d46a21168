//! The effective permissions of a run: those that the skill requests and the caller grants.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::permission::{Access, Permission};
use super::requester::{RequestedPermissions, Requester, declarations_text};
use crate::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use crate::policy::path_protection::{PathProtection, is_within};
use crate::policy::{Answer, Approvals, CancelToken, RunArguments, SkillDigest, ToolFilter};

/// The permissions of one run: an access is allowed if the skill requested it *and* the caller granted it. If skills called one
/// another to get here, each of them must have requested it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// First the skill that the caller invoked; the names are only known once one calls another.
    requesters: Vec<Requester>,
    grants: Vec<Permission>,
    protection: PathProtection,
    /// What an approver decides meanwhile, in runs that have one.
    approvals: Option<Approvals>,
    /// What the run does not have, whoever grants it.
    denied: Option<Arc<Vec<Permission>>>,
    /// The tools that the caller of the invoked skill leaves.
    tool_filter: Option<Arc<ToolFilter>>,
}

impl Permissions {
    /// Combines requested permissions and grants; reading the project is in both.
    pub fn new(
        requested: RequestedPermissions,
        grants: impl IntoIterator<Item = Permission>,
        protection: PathProtection,
    ) -> Self {
        let grants = grants.into_iter().collect();
        Self {
            requesters: vec![Requester::new("", requested)],
            grants,
            protection,
            approvals: None,
            denied: None,
            tool_filter: None,
        }
    }

    /// The same for a run with these arguments, which an approver is shown.
    pub(crate) fn with_arguments(self, arguments: impl FnOnce() -> RunArguments) -> Self {
        Self { approvals: self.approvals.map(|approvals| approvals.with_arguments(arguments())), ..self }
    }

    /// The files in which the skill requests these permissions, each once: none if it lists no permissions at all.
    pub(crate) fn request_files(&self, permissions: &[Permission]) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        let Some(asker) = self.requesters.last() else { return files };
        let RequestedPermissions::Listed(listed) = &asker.requested else { return files };
        for permission in permissions {
            let need = permission.as_access();
            let position = listed.iter().position(|listed| listed.covers(&need, &self.protection));
            let script = asker.script.as_ref().filter(|(_, first)| position.is_some_and(|at| at >= *first));
            let file = script.map_or(&*asker.declaration.0, |(script, _)| script);
            if !files.iter().any(|known| known == file) {
                files.push(file.to_owned());
            }
        }
        files
    }

    /// The permission that an approver could give for this access: `None` if nobody may be asked, the run has the access, nobody may
    /// have it, or some skill does not request it. It is what the skill lists, and no more than a person would grant who sees the
    /// access.
    pub(crate) fn approvable(&self, need: &Access) -> Option<Permission> {
        if self.approvals.is_none()
            || self.forbids(need)
            || self.allows(need)
            || !self.requesters.iter().all(|asker| self.request_covers(asker, need))
        {
            return None;
        }
        Some(self.permission_for(need))
    }

    /// The permission that would give this access: what the skill lists for it, where a person would grant no less.
    fn permission_for(&self, need: &Access) -> Permission {
        let narrowest = need.narrowest_permission(&self.protection);
        let covering = self
            .last_listed()
            .iter()
            .filter(|permission| permission.is_scoped() && permission.covers(need, &self.protection));
        let listed = covering.max_by_key(|permission| permission.scope().map(str::len));
        // A permission without a scope is wider than any that the skill lists with one.
        listed.filter(|_| !narrowest.is_scoped()).cloned().unwrap_or(narrowest)
    }

    /// What the running skill lists.
    fn last_listed(&self) -> &[Permission] {
        self.requesters.last().map_or(&[], |requester| requester.requested.listed())
    }

    /// Permissions that the skill lists and nobody granted, about which an approver could decide before a process starts: what the
    /// process would reach by itself.
    pub(crate) fn approvable_before_start(&self) -> Vec<Permission> {
        let is_open = |permission: &&Permission| {
            permission.is_enforced_on_processes() && self.approvable(&permission.as_access()).is_some()
        };
        self.last_listed().iter().filter(is_open).cloned().collect()
    }

    /// Decides about permissions with `ask`, as [`Approvals::decide`].
    pub(crate) fn decide(
        &self,
        permissions: &[Permission],
        token: &CancelToken,
        ask: impl FnOnce() -> Answer,
    ) -> Result<()> {
        self.approvals.as_ref().map_or(Ok(()), |approvals| approvals.decide(permissions, token, ask))
    }

    /// The answer of `ask` about one call of a tool, as [`Approvals::confirm`]; `None` if nobody may be asked.
    pub(crate) fn confirm(
        &self,
        token: &CancelToken,
        ask: impl FnOnce() -> Answer,
    ) -> Result<Option<Answer>> {
        self.approvals.as_ref().map(|approvals| approvals.confirm(token, ask)).transpose()
    }

    /// Only reading the project.
    pub fn read_only() -> Self {
        Self::new(RequestedPermissions::Listed(Vec::new()), [], PathProtection::default())
    }

    /// Whether the run has this access.
    pub fn allows(&self, need: &Access) -> bool {
        !self.forbids(need)
            && (self.is_plain_read(need)
                || self.requesters.iter().all(|requester| self.request_covers(requester, need))
                    && self.grants_cover(need))
    }

    /// A hint that says who must add the missing permission, and where.
    fn hint(&self, need: &Access, permission: &str) -> String {
        let without_request =
            self.requesters.iter().filter(|requester| !self.request_covers(requester, need));
        let lists = declarations_text(without_request, self.requesters.len() == 1);
        let list = format!("list {permission} {lists}");
        let grant = format!("grant {permission}");
        match (lists.is_empty(), self.grants_cover(need)) {
            (true, _) => grant,
            (false, true) => list,
            (false, false) => format!("{list} and {grant}"),
        }
    }

    /// Whether the skill that runs lists the secret of this name by itself. One that requests everything lists nothing.
    pub(crate) fn lists_secret(&self, name: &str) -> bool {
        let is_it = |listed: &Permission| listed.secret_name_and_host().is_some_and(|(own, _)| own == name);
        self.last_listed().iter().any(is_it)
    }

    /// The effective permissions beyond reading the project, and that of leaving the sandbox, which needs no request.
    pub(crate) fn beyond_reading(&self) -> Vec<Permission> {
        let mut held = self.effective();
        held.retain(|permission| *permission != Permission::READ);
        let unrequested = self.grants.iter().filter(|granted| granted.applies_without_request());
        held.extend(unrequested.cloned().collect::<Vec<_>>());
        held.sort_unstable();
        held.dedup();
        held
    }

    /// Whether the run has what [`Self::beyond_reading`] listed for another one.
    pub(crate) fn holds(&self, permission: &Permission) -> bool {
        if permission.applies_without_request() {
            return self.grants.contains(permission);
        }
        let is_left_out = permission.as_access().tool_name().is_some_and(|name| !self.accepts_tool(name));
        !is_left_out && self.has_some_of(permission)
    }

    /// What the configuration denies.
    pub(crate) fn denied(&self) -> &[Permission] {
        self.denied.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether the run has this permission, or what denied hosts leave of it.
    fn has_some_of(&self, permission: &Permission) -> bool {
        let need = permission.as_access();
        let is_denied = || {
            let mut denied = self.denied.as_deref().into_iter().flatten();
            denied.any(|denied| denied.forbids_all_of(permission))
        };
        let has_all = |requester| self.request_covers(requester, &need);
        self.allows(&need) || self.requesters.iter().all(has_all) && self.grants_cover(&need) && !is_denied()
    }

    /// The paths of all permissions of a kind that were both granted and requested.
    fn permitted_paths(&self, path_of: fn(&Permission) -> Option<&str>) -> Vec<String> {
        let granted = self.grants_and_approvals();
        let granted = granted.iter().filter_map(path_of).map(str::to_owned).collect();
        let mut paths: Vec<String> =
            self.requesters.iter().fold(granted, |paths, requester| match &requester.requested {
                RequestedPermissions::All => paths,
                RequestedPermissions::Listed(requested) => {
                    intersect_paths(&paths, &requested.iter().filter_map(path_of).collect::<Vec<_>>())
                }
            });
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    fn request_covers(&self, requester: &Requester, need: &Access) -> bool {
        self.is_plain_read(need)
            || requester.requested.any(|permission| permission.covers(need, &self.protection))
    }

    fn grants_cover(&self, need: &Access) -> bool {
        let covers = |permission: &Permission| permission.covers(need, &self.protection);
        self.is_plain_read(need)
            || self.grants.iter().any(covers)
            || self.approvals.as_ref().is_some_and(|approvals| approvals.any_approved(covers))
    }

    /// The grants of the caller, and what was approved since.
    fn grants_and_approvals(&self) -> Vec<Permission> {
        self.grants.iter().cloned().chain(self.approved()).collect()
    }

    /// Whether this is reading the project, which every skill requests and every caller grants.
    fn is_plain_read(&self, need: &Access) -> bool {
        Permission::READ.covers(need, &self.protection)
    }
}

/// What the engine and the runtimes do with the permissions of a run besides asking whether they allow something.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait RunPermissions: Sized {
    /// The same without these permissions, whoever grants or approves them: neither the run nor its callees have them. A path is
    /// protected from now on, so that a process does not reach it through the folder that contains it.
    fn without(self, denied: &[Permission]) -> Self;

    /// The same with the tools that this filter leaves, whoever grants others: for the run and its callees.
    fn with_tool_filter(self, filter: Option<Arc<ToolFilter>>) -> Self;

    /// Whether the caller of the invoked skill leaves this tool.
    fn accepts_tool(&self, name: &str) -> bool;

    /// Whether paths are denied that a process could change if it changes anything.
    fn denies_paths(&self) -> bool;

    /// Whether nobody may grant this access.
    fn forbids(&self, need: &Access) -> bool;

    /// The permissions of a skill that `caller`, the holder of these permissions, runs: those that it requests, and no more than
    /// its caller has.
    fn for_callee(&self, caller: &str, to: &str, requested: RequestedPermissions) -> Self;

    /// The same for a call of a tool of that skill, which has these of its skill's permissions and no others, as the file lists
    /// them.
    fn for_tool(
        self,
        skill_and_tool: (&str, &str),
        file: Cow<'static, str>,
        narrowed: Vec<Permission>,
    ) -> Self;

    /// The same for a skill that lists its requested permissions in this file, under this key, so that refusals name them.
    fn declared_in(self, declaration: (Cow<'static, str>, &'static str)) -> Self;

    /// The same for a run that may ask an approver, who decides like its caller: only about what every skill requests.
    fn with_approvals(self, skill: &str) -> Self;

    /// The same for a callee with this qualified name and these files: what is approved for it is not approved for its caller, and
    /// what was approved for its caller only if the files counted then.
    fn with_callee_approvals(self, skill: &str, files: Option<SkillDigest>) -> Self;

    /// Whether somebody may be asked for the run.
    fn has_approver(&self) -> bool;

    /// Records the callees, by their qualified names and files, that the digest of the invoked skill counts: those of the first
    /// question of the run.
    fn record_callees(&self, callees: impl FnOnce() -> Vec<(String, SkillDigest)>);

    /// The same for a skill whose script requests all but the first so many of the listed permissions, which an approver is shown.
    fn with_requests_of_script(self, script: &str, listed: usize) -> Self;

    /// What the skill was called with; `None` in runs that have no approver.
    fn arguments(&self) -> Option<&RunArguments>;

    /// The same with what was approved until now among the grants, and nothing that is approved later.
    fn frozen(&self) -> Self;

    /// What an approver permitted until now.
    fn approved(&self) -> Vec<Permission>;

    /// Whether somebody was asked for the run, whatever the answer.
    fn has_decisions(&self) -> bool;

    /// Permissions that the skill lists and nobody granted, about which an approver could decide before anything runs. Running in a
    /// sandbox needs none, and nobody is asked to leave it.
    fn approvable_at_start(&self) -> Vec<Permission>;

    /// The hosts at which the run may use the secret of this name, as permissions name them.
    fn secret_hosts(&self, name: &str) -> Vec<String>;

    /// These permissions without grants that name no target, such as plain `net`: for access that must be granted by name.
    fn scoped_only(&self) -> Self;

    /// These permissions with another protected path: protected for reading and changing, or for changing only.
    fn with_protected_path(&self, path: &str, protects_read: bool) -> Self;

    /// Refuses with a sentence that starts with `attempt` (`failed to write out/a.txt`) and ends with a hint.
    fn require(&self, need: &Access, attempt: impl fmt::Display) -> Result<()>;

    /// The same, where this permission would give the access, and is narrower than the one that is usually named.
    fn require_by(&self, need: &Access, permission: &Permission, attempt: impl fmt::Display) -> Result<()>;

    /// Whether the caller granted this, whether the skill requests it or not.
    fn is_granted(&self, need: &Access) -> bool;

    /// Whether the run can only read: no permission for more is both granted and requested, whatever its scope, and no granted
    /// permission applies without a request.
    fn only_reads(&self) -> bool;

    /// The effective permissions, sorted: grants that every skill requested, or requests that the grants cover.
    fn effective(&self) -> Vec<Permission>;

    /// The paths below which the run may write, relative to the project; the project itself is empty. Some of them may still
    /// contain protected paths.
    fn writable_paths(&self) -> Vec<String>;

    /// The paths of the user's home folder that the run may read.
    fn home_paths(&self) -> Vec<String>;

    /// The paths of the user's home folder that the run may change.
    fn writable_home_paths(&self) -> Vec<String>;

    /// What the configuration denies of reading this path of the home folder, or of changing it: a sandbox cannot leave out what lies
    /// within.
    fn denied_home_path(&self, path: &str, is_writable: bool) -> Option<Permission>;

    /// Which paths need a permission that names them.
    fn protection(&self) -> &PathProtection;
}

#[doc(hidden)]
impl RunPermissions for Permissions {
    fn without(mut self, denied: &[Permission]) -> Self {
        if denied.is_empty() {
            return self;
        }
        self.grants.retain(|granted| !denied.iter().any(|denied| denied.forbids_all_of(granted)));
        for path in denied.iter().filter_map(Permission::writable_path) {
            self.protection = self.protection.with_discovered(path, false);
        }
        let before = self.denied.as_deref().into_iter().flatten();
        self.denied = Some(Arc::new(before.chain(denied).cloned().collect()));
        self
    }

    fn with_tool_filter(self, filter: Option<Arc<ToolFilter>>) -> Self {
        Self { tool_filter: filter, ..self }
    }

    fn accepts_tool(&self, name: &str) -> bool {
        self.tool_filter.as_ref().is_none_or(|filter| filter.accepts(name))
    }

    fn denies_paths(&self) -> bool {
        self.denied.as_deref().into_iter().flatten().any(|denied| denied.writable_path().is_some())
    }

    fn forbids(&self, need: &Access) -> bool {
        self.denied.as_ref().is_some_and(|denied| denied.iter().any(|denied| denied.forbids(need)))
            || need.tool_name().is_some_and(|name| !self.accepts_tool(name))
    }

    fn for_callee(&self, caller: &str, to: &str, requested: RequestedPermissions) -> Self {
        let mut narrowed = self.clone();
        if let Some(last) = narrowed.requesters.last_mut() {
            caller.clone_into(&mut last.skill);
        }
        narrowed.requesters.push(Requester::new(to, requested));
        narrowed
    }

    fn for_tool(
        mut self,
        (skill, tool): (&str, &str),
        file: Cow<'static, str>,
        narrowed: Vec<Permission>,
    ) -> Self {
        if let Some(last) = self.requesters.last_mut() {
            skill.clone_into(&mut last.skill);
        }
        self.requesters.push(Requester {
            skill: format!("{skill}, for its tool {tool}"),
            requested: RequestedPermissions::Listed(narrowed),
            declaration: (file, "permissions"),
            script: None,
        });
        self
    }

    fn declared_in(mut self, declaration: (Cow<'static, str>, &'static str)) -> Self {
        if let Some(last) = self.requesters.last_mut() {
            last.declaration = declaration;
        }
        self
    }

    fn with_approvals(self, skill: &str) -> Self {
        Self { approvals: Some(Approvals::new(skill)), ..self }
    }

    fn with_callee_approvals(self, skill: &str, files: Option<SkillDigest>) -> Self {
        Self { approvals: self.approvals.map(|approvals| approvals.for_callee(skill, files)), ..self }
    }

    fn has_approver(&self) -> bool {
        self.approvals.is_some()
    }

    fn record_callees(&self, callees: impl FnOnce() -> Vec<(String, SkillDigest)>) {
        if let Some(approvals) = &self.approvals {
            approvals.record_callees(callees);
        }
    }

    fn with_requests_of_script(mut self, script: &str, listed: usize) -> Self {
        if let Some(last) = self.requesters.last_mut().filter(|_| self.approvals.is_some()) {
            last.script = Some((script.to_owned(), listed));
        }
        self
    }

    fn arguments(&self) -> Option<&RunArguments> {
        self.approvals.as_ref().map(Approvals::arguments)
    }

    fn frozen(&self) -> Self {
        Self { grants: self.grants_and_approvals(), approvals: None, ..self.clone() }
    }

    fn approved(&self) -> Vec<Permission> {
        self.approvals.as_ref().map(Approvals::approved).unwrap_or_default()
    }

    fn has_decisions(&self) -> bool {
        self.approvals.as_ref().is_some_and(Approvals::has_decisions)
    }

    fn approvable_at_start(&self) -> Vec<Permission> {
        let is_open = |permission: &&Permission| {
            permission.name() != "exec" && self.approvable(&permission.as_access()).is_some()
        };
        let mut open: Vec<Permission> = self.last_listed().iter().filter(is_open).cloned().collect();
        open.sort_unstable();
        open.dedup();
        open
    }

    fn secret_hosts(&self, name: &str) -> Vec<String> {
        let held = self.effective();
        let hosts = held.iter().filter_map(|permission| match permission.secret_name_and_host() {
            Some((own, host)) if own == name => host.map(str::to_owned),
            _ => None,
        });
        hosts.collect()
    }

    fn scoped_only(&self) -> Self {
        let granted = self.grants.iter().filter(|permission| permission.is_scoped()).cloned().collect();
        let approvals = self.approvals.as_ref().map(Approvals::scoped_only);
        Self { grants: granted, approvals, ..self.clone() }
    }

    fn with_protected_path(&self, path: &str, protects_read: bool) -> Self {
        let mut narrowed = self.clone();
        narrowed.protection = narrowed.protection.with_discovered(path, protects_read);
        narrowed
    }

    fn require(&self, need: &Access, attempt: impl fmt::Display) -> Result<()> {
        self.require_by(need, &self.permission_for(need), attempt)
    }

    fn require_by(&self, need: &Access, permission: &Permission, attempt: impl fmt::Display) -> Result<()> {
        if self.allows(need) {
            return Ok(());
        }
        let permission = permission.to_string();
        if need.tool_name().is_some_and(|name| !self.accepts_tool(name)) {
            return Err(filtered_tool_error(&attempt));
        }
        if self.forbids(need) {
            let sentence = format!("{attempt}: not permitted; the configuration denies {permission}");
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("remove it from the denied permissions of the configuration"));
        }
        let help = self.hint(need, &permission);
        let hint = (!self.grants_cover(need)).then(|| Hint::Grant(permission.clone()));
        Err(SkillError::new(ErrorKind::Denied, format!("{attempt}: not permitted; {help}"))
            .with_help(help)
            .with_hint(hint)
            .with_missing_permission(Some(permission)))
    }

    fn is_granted(&self, need: &Access) -> bool {
        self.grants_cover(need)
    }

    fn only_reads(&self) -> bool {
        let may_be_requested = |granted: &Permission| {
            let is_same_kind = |permission: &Permission| permission.is_same_kind(granted);
            self.requesters.iter().all(|requester| requester.requested.any(is_same_kind))
        };
        // An approver could permit anything that is requested.
        let may_be_approved = || {
            self.requesters.iter().all(|requester| requester.requested.any(Permission::does_more_than_read))
        };
        let is_granted = self.grants.iter().any(|permission| {
            permission.applies_without_request()
                || permission.does_more_than_read() && may_be_requested(permission)
        });
        !(is_granted || self.approvals.is_some() && may_be_approved())
    }

    fn effective(&self) -> Vec<Permission> {
        let requested = self.requesters.iter().flat_map(|requester| requester.requested.listed());
        let mut permissions: Vec<Permission> =
            [Permission::READ].iter().chain(&self.grants_and_approvals()).chain(requested).cloned().collect();
        permissions.retain(|permission| self.has_some_of(permission));
        permissions.sort_unstable();
        permissions.dedup();
        permissions
    }

    fn writable_paths(&self) -> Vec<String> {
        self.permitted_paths(Permission::writable_path)
    }

    fn home_paths(&self) -> Vec<String> {
        self.permitted_paths(Permission::home_path)
    }

    fn writable_home_paths(&self) -> Vec<String> {
        self.permitted_paths(Permission::writable_home_path)
    }

    fn denied_home_path(&self, path: &str, is_writable: bool) -> Option<Permission> {
        let denies = |denied: &&Permission| {
            let is_about = is_writable || denied.writable_home_path().is_none();
            let scope = denied.home_path().filter(|_| is_about);
            scope.is_some_and(|scope| is_within(scope, path) || is_within(path, scope))
        };
        self.denied.as_deref().into_iter().flatten().find(denies).cloned()
    }

    fn protection(&self) -> &PathProtection {
        &self.protection
    }
}

impl Permissions {
    /// The access by which the run has the secret of this name: reading it, or using it at a host. Where it has neither, the one that the
    /// skill requests.
    pub(crate) fn secret_access(&self, name: &str) -> Access {
        let reading = Access::secret(name);
        if self.allows(&reading) {
            return reading;
        }
        let is_own = |permission: &&Permission| matches!(permission.secret_name_and_host(), Some((own, Some(_))) if own == name);
        let held = self.effective().iter().find(is_own).map(Permission::as_access);
        let listed = || self.last_listed().iter().find(is_own).map(Permission::as_access);
        held.or_else(|| {
            listed().filter(|_| !self.last_listed().iter().any(|own| own.covers(&reading, &self.protection)))
        })
        .unwrap_or(reading)
    }
}

/// The paths that both lists cover: of a folder and one inside it, the inner one.
fn intersect_paths(paths: &[String], requested: &[&str]) -> Vec<String> {
    let both = |path: &String, requested: &str| {
        let inner = if is_within(path, requested) { path.as_str() } else { requested };
        (is_within(inner, path) && is_within(inner, requested)).then(|| inner.to_owned())
    };
    paths
        .iter()
        .flat_map(|path| requested.iter().filter_map(|requested| both(path, requested)).collect::<Vec<_>>())
        .collect()
}

/// A tool that the caller of the run left out.
pub fn filtered_tool_error(attempt: impl fmt::Display) -> SkillError {
    let sentence = format!("{attempt}: not permitted; whoever started the run left the tool out");
    SkillError::new(ErrorKind::Denied, sentence)
        .with_help("start the run with this tool among those it may call")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Vec<Permission> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn run(asked: &[&str], granted: &[&str]) -> Permissions {
        Permissions::new(
            RequestedPermissions::Listed(parsed(asked)),
            parsed(granted),
            PathProtection::default(),
        )
    }

    #[test]
    fn a_need_must_be_asked_and_granted() {
        let write = Access::write("out/a.txt");
        assert!(run(&["write"], &["write:out"]).allows(&write));
        assert!(!run(&["write"], &["write:src"]).allows(&write));
        assert!(run(&[], &[]).allows(&Access::read("src/main.rs")));
        assert!(!run(&["read:.env"], &[]).allows(&Access::read(".env")));
        assert!(run(&["read:.env"], &["read:.env"]).allows(&Access::read(".env")));
    }

    #[test]
    fn what_must_be_named_is_not_opened_by_a_plain_grant() {
        let inside = Access::net("10.0.0.1");
        assert!(run(&["net"], &["net:10.0.0.1"]).scoped_only().allows(&inside));
        assert!(!run(&["net"], &["net", "net:10.0.0.10"]).scoped_only().allows(&inside));
        assert!(!run(&["net:example.com"], &["net:10.0.0.1"]).scoped_only().allows(&inside));
        let refused =
            run(&["net"], &["net"]).scoped_only().require(&inside, "failed to reach it").unwrap_err();
        assert_eq!(refused.help(), Some("grant net:10.0.0.1"));
    }

    #[test]
    fn what_must_be_named_is_not_opened_by_a_plain_approval() {
        let inside = Access::net("10.0.0.1");
        for (approved, is_open) in [("net", false), ("net:10.0.0.1", true)] {
            let run = run(&["net"], &[]).with_approvals("a");
            let permission = approved.parse().unwrap();
            run.approvals
                .as_ref()
                .unwrap()
                .decide(&[permission], &CancelToken::new(), || Answer::Yes)
                .unwrap();
            assert!(run.allows(&inside));
            assert_eq!(run.scoped_only().allows(&inside), is_open);
            let callee = run.for_callee("a", "b", RequestedPermissions::Listed(parsed(&["net"])));
            let files = SkillDigest::new([0; 32]);
            run.record_callees(|| vec![("b".into(), files)]);
            let callee = |files| callee.clone().with_callee_approvals("b", files);
            assert!(callee(Some(files)).allows(&inside), "a callee of the skill that asked");
            assert!(!callee(Some(SkillDigest::new([1; 32]))).allows(&inside), "it changed");
            assert!(!callee(None).allows(&inside), "nobody knows its files");
            assert!(run.frozen().allows(&inside));
        }
    }

    #[test]
    fn what_may_be_written_is_what_has_decisions_and_granted() {
        for (asked, granted, writable) in [
            (&["write"][..], &["write"][..], &[""][..]),
            (&["write"], &["write:out", "write:docs/a"], &["docs/a", "out"]),
            (&["write:out/deep", "write:other"], &["write:out"], &["out/deep"]),
            (&["write:out"], &["write:output"], &[]),
            (&[], &["write"], &[]),
            (&["write"], &["read", "exec"], &[]),
        ] {
            assert_eq!(run(asked, granted).writable_paths(), writable, "{asked:?} {granted:?}");
        }
        let everything =
            Permissions::new(RequestedPermissions::All, parsed(&["write:a"]), PathProtection::default());
        assert_eq!(everything.writable_paths(), ["a"]);
        assert_eq!(
            everything
                .for_callee("a", "b", RequestedPermissions::Listed(parsed(&["write:a/b"])))
                .writable_paths(),
            ["a/b"]
        );
    }

    #[test]
    fn a_run_only_reads_where_nothing_else_is_both_asked_and_granted() {
        for (asked, granted, only_reads) in [
            (&[][..], &[][..], true),
            (&["read", "exec", "wasi"], &["read:.env", "exec", "wasi"], true),
            (&["write"], &[], true),
            (&[], &["write", "net", "tool:x"], true),
            (&[], &["exec:unsandboxed"], false),
            (&["write:a"], &["write:b"], false),
            (&["net:a.example"], &["net"], false),
            (&["tool:x"], &["tool:x"], false),
            (&["skill:x"], &["skill:x"], false),
            (&["secret:x"], &["secret:x"], false),
            (&["sample"], &["sample"], false),
            (&["shm"], &["shm"], false),
            (&["exec:unsandboxed"], &["exec:unsandboxed"], false),
            (&["exec"], &["exec:unsandboxed"], false),
        ] {
            assert_eq!(run(asked, granted).only_reads(), only_reads, "{asked:?} {granted:?}");
        }
        let everything =
            Permissions::new(RequestedPermissions::All, parsed(&["write"]), PathProtection::default());
        assert!(!everything.only_reads());
        assert!(everything.for_callee("a", "b", RequestedPermissions::Listed(Vec::new())).only_reads());
        assert!(!everything.for_callee("a", "b", RequestedPermissions::All).only_reads());
    }

    #[test]
    fn what_a_run_holds_is_no_more_than_the_narrower_word() {
        for (asked, granted, held) in [
            (&[][..], &[][..], &["read"][..]),
            (&["write"], &["write:out"], &["read", "write:out"]),
            (&["write:out", "tool:a"], &["write", "tool:a", "tool:b"], &["read", "write:out", "tool:a"]),
            (&["net:example.com"], &["net"], &["read", "net:example.com"]),
            (&["net"], &["net:example.com"], &["read", "net:example.com"]),
            (&["read:.env", "sample"], &["read:.env"], &["read", "read:.env"]),
            (&["write"], &["write", "write:.git"], &["read", "write"]),
        ] {
            let held: Vec<Permission> = parsed(held);
            assert_eq!(run(asked, granted).effective(), held, "{asked:?} {granted:?}");
        }
    }

    #[test]
    fn a_refusal_names_whose_word_is_missing() {
        let sentence = |asked: &[&str], granted: &[&str]| {
            let refused = run(asked, granted).require(&Access::write("a.txt"), "failed to write a.txt");
            refused.unwrap_err().to_string()
        };
        assert_eq!(sentence(&["write"], &[]), "failed to write a.txt: not permitted; grant write");
        assert_eq!(
            sentence(&[], &["write"]),
            "failed to write a.txt: not permitted; list write under allowed-tools in SKILL.md"
        );
        assert!(sentence(&[], &[]).ends_with("SKILL.md and grant write"));
    }

    #[test]
    fn a_callee_may_what_it_asks_and_every_caller_asked_and_was_granted() {
        let may = |chain: &[&[&str]], granted: &[&str], need: &Access| {
            let first = run(chain[0], granted);
            let last = chain[1..].iter().fold(first, |permissions, asked| {
                permissions.for_callee("caller", "callee", RequestedPermissions::Listed(parsed(asked)))
            });
            last.allows(need)
        };
        let write = Access::write("out/a.txt");
        assert!(may(&[&["write"], &["write"], &["write:out"]], &["write"], &write));
        for chain in
            [[&["write"][..], &["write"], &[]], [&["write"], &[], &["write"]], [&[], &["write"], &["write"]]]
        {
            assert!(!may(&chain, &["write"], &write), "{chain:?}");
        }
        assert!(!may(&[&["write"], &["write"]], &[], &write));
        assert!(!may(&[&["write:src"], &["write"]], &["write"], &write));
        assert!(!may(&[&["write"], &["write:.git"]], &["write:.git"], &Access::write(".git/config")));
        let everything = run(&[], &["exec"]).for_callee("x", "y", RequestedPermissions::All);
        assert!(
            !everything.allows(&Access::exec()),
            "a script that asks for everything has what its caller asked"
        );
    }

    #[test]
    fn a_refusal_among_several_skills_names_those_that_do_not_ask() {
        let nested = run(&[], &[])
            .for_callee("x", "y", RequestedPermissions::Listed(parsed(&["write"])))
            .for_callee("y", "z", RequestedPermissions::Listed(Vec::new()));
        let refused = nested.require(&Access::write("a.txt"), "failed to write a.txt").unwrap_err();
        assert_eq!(
            refused.help(),
            Some("list write under allowed-tools in the SKILL.md of x and the SKILL.md of z and grant write")
        );
    }
}
