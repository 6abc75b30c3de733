//! Writes the inputs to begin with into a folder, one folder for each target. usage: fuzz-seeds FOLDER

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    for target in &fuzz::TARGETS {
        let folder = Path::new(&folder).join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, input) in (target.seeds)() {
            fs::write(folder.join(name), input)?;
        }
    }
    Ok(())
}
