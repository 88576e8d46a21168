//! Ctrl-C and the other signals that ask a program to end.

use metier::policy::CancelToken;

/// Stops the run at the first Ctrl-C, and ends the command at the second.
pub fn cancel_on_interrupt(token: CancelToken) {
    let handler = move || {
        if token.is_cancelled() {
            super::prompt::restore_terminal();
            std::process::exit(130);
        }
        token.cancel();
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!(%error, "Ctrl-C will end metier at once");
    }
}
