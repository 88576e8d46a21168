//! Passes the progress that a script reports on to the client that asked for it.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::mpsc;

use super::skill_content::shown_text;
use super::tool_run::ProgressListener;
use metier_core::excerpt::shorten;
use metier_core::host::Progress;

/// Reports of progress that wait to be sent; further ones are left out.
const MAX_PROGRESS: usize = 32;

/// A listener for the progress of a run, and the notifications that it makes.
pub(super) fn progress_channel(
    token: ProgressToken,
) -> (Option<ProgressListener>, Option<mpsc::Receiver<ProgressNotificationParam>>) {
    let (sender, receiver) = mpsc::channel(MAX_PROGRESS);
    let last = Mutex::new(0.0_f64);
    let listener = move |progress: &Progress| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        // The protocol demands that it grows. A script may report what it likes, or nothing but texts.
        let done = progress
            .done
            .filter(|done| done.is_finite() && *done > *last)
            .unwrap_or(*last + f64::EPSILON.max(*last * 1e-9));
        let mut report = ProgressNotificationParam::new(token.clone(), done)
            .with_message(shorten(&shown_text(&progress.message), 2_000));
        if let Some(total) = progress.total.filter(|total| total.is_finite()) {
            report = report.with_total(total);
        }
        if sender.try_send(report).is_ok() {
            *last = done;
        }
    };
    (Some(Arc::new(listener)), Some(receiver))
}
