//! The state document of Terraform (version 4): text to rows.

use crate::domain::id::{Lineage, Serial};
use crate::domain::json::JsonError;
use crate::domain::state::Row;

/// The members of a state document that belong to no row, kept with each version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentHead {
    /// The `terraform_version` that wrote it.
    pub terraform_version: String,
    /// Top-level members that kl does not know, as exact JSON text in their order; also a `check_results` that is
    /// null or empty, so that its presence survives.
    pub extra: Vec<(String, String)>,
}

/// A whole state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDocument {
    /// Members that belong to no row.
    pub head: DocumentHead,
    /// The lineage; none in a document that never had one.
    pub lineage: Option<Lineage>,
    /// The serial.
    pub serial: Serial,
    /// The rows, ordered by their key, no key twice.
    pub rows: Vec<Row>,
}

/// Why a document cannot be taken as a state.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not JSON.
    #[error("the document is not JSON that Terraform could have written")]
    Json(#[from] JsonError),
}
