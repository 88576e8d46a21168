//! Files of the project, temporary files, and what a script keeps.

use crate::parity::work::Work;

#[test]
fn files_of_the_project_are_read() {
    Work {
        what: "reading",
        python: "import csv, json, pathlib\nprint(sorted(str(p) for p in pathlib.Path('data').rglob('*')))
print(list(csv.DictReader(open('data/a.csv'))), json.load(open('data/deep/b.json')))",
        shell: "find data | sort; cut -d, -f2 data/a.csv; grep -c . data/deep/b.json; wc -l < data/a.csv",
        node: "const fs = require('fs'); console.log(fs.readdirSync('data').sort(), JSON.parse(fs.readFileSync('data/deep/b.json')), fs.statSync('data/a.csv').size)",
        files: &[("data/a.csv", "x,y\n1,2\n3,4\n"), ("data/deep/b.json", "{\"a\": [1, 2]}")],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn files_that_may_be_written_are_written() {
    Work {
        what: "writing, replacing, removing and renaming",
        python: "import os, shutil\nos.makedirs('out/deep')\nopen('out/deep/a.txt', 'w').write('a')
open('out/b.tmp', 'w').write('b'); os.replace('out/b.tmp', 'out/b.txt'); shutil.copy('in.txt', 'out/c.txt')
os.remove('out/old.txt'); open('out/log', 'a').write('more\\n')",
        shell: "mkdir -p out/deep; printf a > out/deep/a.txt; printf b > out/b.tmp; mv out/b.tmp out/b.txt; cp in.txt out/c.txt; rm out/old.txt; echo more >> out/log",
        node: "const fs = require('fs'); fs.mkdirSync('out/deep'); fs.writeFileSync('out/deep/a.txt', 'a'); fs.writeFileSync('out/b.tmp', 'b');
fs.renameSync('out/b.tmp', 'out/b.txt'); fs.copyFileSync('in.txt', 'out/c.txt'); fs.unlinkSync('out/old.txt'); fs.appendFileSync('out/log', 'more\\n')",
        files: &[("in.txt", "in"), ("out/old.txt", "old"), ("out/log", "first\n")],
        options: &["--allow", "write:out"],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_folder_that_does_not_exist_yet_is_written_to() {
    Work {
        what: "a new folder",
        python: "import os\nos.makedirs('build', exist_ok=True)\nopen('build/report.md', 'w').write('# r\\n')",
        shell: "mkdir -p build; echo '# r' > build/report.md",
        node: "const fs = require('fs'); fs.mkdirSync('build', {recursive: true}); fs.writeFileSync('build/report.md', '# r\\n')",
        options: &["--allow", "write:build"],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn temporary_files_work_and_are_gone() {
    Work {
        what: "temporary files",
        python: "import os, tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('x' * 1000); f.flush(); print(os.path.getsize(f.name))
d = tempfile.mkdtemp(); open(d + '/a', 'w').write('b'); print(os.listdir(d))",
        shell: "f=$(mktemp); echo text > \"$f\"; cat \"$f\"; d=$(mktemp -d); touch \"$d/a\"; ls \"$d\"; rm -r \"$d\" \"$f\"",
        node: "const fs = require('fs'), os = require('os'), path = require('path'); const d = fs.mkdtempSync(path.join(os.tmpdir(), 'x-')); fs.writeFileSync(d + '/a', 'b'); console.log(fs.readdirSync(d)); fs.rmSync(d, {recursive: true})",
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn what_a_script_keeps_in_its_home_is_there_in_the_next_run() {
    Work {
        what: "state in the home folder",
        python: "import json, os, pathlib\np = pathlib.Path.home() / '.config/notes/list.json'; p.parent.mkdir(parents=True, exist_ok=True)
notes = json.loads(p.read_text()) if p.exists() else []\nnotes.append(len(notes)); p.write_text(json.dumps(notes)); print(notes)",
        shell: "mkdir -p ~/.local/share/notes; echo \"$(ls ~/.local/share/notes | wc -l)\" >> ~/.local/share/notes/list; cat ~/.local/share/notes/list",
        node: "const fs = require('fs'), os = require('os'); const p = os.homedir() + '/.notes.json'; const n = fs.existsSync(p) ? JSON.parse(fs.readFileSync(p)) : []; n.push(n.length); fs.writeFileSync(p, JSON.stringify(n)); console.log(n)",
        options: &["--allow", "state"],
        runs: 3,
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_script_that_writes_beside_itself_does_so() {
    Work {
        what: "files of the skill's own folder",
        python: "import pathlib\np = pathlib.Path(__file__).parent.parent / 'cache.txt'; p.write_text(p.read_text() + 'x' if p.exists() else 'x'); print(p.read_text())",
        shell: "here=$(cd \"$(dirname \"$0\")/..\" && pwd); printf x >> \"$here/cache.txt\"; cat \"$here/cache.txt\"",
        node: "const fs = require('fs'), p = require('path').join(__dirname, '..', 'cache.txt'); fs.appendFileSync(p, 'x'); console.log(fs.readFileSync(p, 'utf8'))",
        options: &["--allow", "own-folder"],
        runs: 2,
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_database_is_written_in_the_project() {
    Work {
        what: "SQLite",
        python: "import sqlite3\ndb = sqlite3.connect('out/a.db'); db.execute('create table if not exists t(x)'); db.execute('insert into t values (1)'); db.commit()
print(db.execute('select count(*) from t').fetchall())",
        files: &[("out/.keep", "")],
        options: &["--allow", "write:out"],
        runs: 2,
        ..Work::default()
    }
    .is_the_same();
}
