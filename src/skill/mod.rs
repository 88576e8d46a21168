//! A skill as text: `SKILL.md` in, manifest and diagnostics out. Nothing here touches the disk.
