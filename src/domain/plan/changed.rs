//! Changed attributes with their values, for projects that show them: masked where they are sensitive.

use serde::{Deserialize, Serialize};

/// A changed attribute with its values, masked where they are sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedValue {
    /// The resource instance.
    pub address: String,
    /// The attribute's path, as `tags.Name`.
    pub attribute: String,
    /// JSON text before; none when there was no object.
    pub before: Option<String>,
    /// JSON text after; none when there is no object, or it is not known yet.
    pub after: Option<String>,
}
