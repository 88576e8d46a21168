//! Prints the public items of a library, one on a line, from rustdoc's JSON about it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: public_api RUSTDOC.json")?;
    // What every type has is left out: it says nothing about this library.
    let api = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    api.items().for_each(|item| println!("{item}"));
    Ok(())
}
