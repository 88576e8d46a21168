//! What a plug-in may ask of the latest response to one of its requests.

/// Status and headers of the latest response.
pub(super) struct LatestResponse {
    pub(super) status: u64,
    /// As JSON text.
    pub(super) headers: String,
}

impl LatestResponse {
    /// Before any response.
    pub(super) fn none() -> Self {
        Self { status: 0, headers: "{}".into() }
    }
}
