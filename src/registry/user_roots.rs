//! The roots of the user: the product's data folder, and the folder that all clients share.

use std::ffi::OsString;
use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::root::{Root, Scope};

/// The roots of the user; fewer where there is no home folder.
pub(super) fn roots(product: &str) -> Vec<Root> {
    let platform = etcetera::base_strategy::choose_native_strategy().ok();
    let named = std::env::var_os(data_dir_variable(product));
    let data = data_folder(named, product, platform.as_ref().map(BaseStrategy::data_dir));
    let own = data.map(|data| Root::new(Scope::User, product, data.join("skills")));
    let home = platform.as_ref().map(BaseStrategy::home_dir);
    let shared = home.map(|home| Root::new(Scope::User, ".agents", home.join(".agents/skills")));
    own.into_iter().chain(shared).collect()
}

/// `METIER_DATA_DIR` for metier.
fn data_dir_variable(product: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    product.chars().map(letter).chain("_DATA_DIR".chars()).collect()
}

/// A data folder named by the user belongs to the product alone; the platform's is shared by all products.
fn data_folder(named: Option<OsString>, product: &str, platform: Option<PathBuf>) -> Option<PathBuf> {
    match named.filter(|folder| !folder.is_empty()) {
        Some(folder) => Some(folder.into()),
        None => platform.map(|data| data.join(product)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_product_has_its_own_variable() {
        assert_eq!(data_dir_variable("metier"), "METIER_DATA_DIR");
        assert_eq!(data_dir_variable("my-agent"), "MY_AGENT_DATA_DIR");
    }

    #[test]
    fn the_named_folder_is_used_as_it_is_and_the_platforms_is_shared() {
        let platform = || Some(PathBuf::from("/home/me/.local/share"));
        let folder = |named: &str| data_folder(Some(named.into()), "acme", platform());
        assert_eq!(folder("/srv/acme"), Some(PathBuf::from("/srv/acme")));
        assert_eq!(folder(""), Some(PathBuf::from("/home/me/.local/share/acme")));
        assert_eq!(data_folder(None, "acme", None), None);
    }
}
