//! placeholder
use super::{Store, StoreError};
use std::sync::Arc;
/// x
pub struct DatabaseUrl;
impl DatabaseUrl {
    /// x
    pub fn parse(_t: &str) -> Result<Self, std::fmt::Error> {
        Ok(Self)
    }
}
/// x
pub async fn open(_u: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Corrupt("".into()))
}
/// x
pub async fn open_unchecked(_u: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Corrupt("".into()))
}
