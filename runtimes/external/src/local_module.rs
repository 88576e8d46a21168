//! Whether a module that a script misses is a file of its author, perhaps one that was left behind, and no package of somebody else's.

use std::path::{Component, Path, PathBuf};

/// Packages that scripts use much, by the names of their modules. Of any other name a stranger may have made a package.
const COMMON_MODULES: &str = "
    accelerate aiofiles aiohttp altair anthropic anyio arrow ase astropy attrs babel black bleach bokeh boto3 botocore brotli build cairosvg
    celery certifi chardet charset_normalizer chromadb click colorama cryptography cssselect cython dash dask datasets diffusers docker docutils
    duckdb ebooklib fabric faker fastapi fastmcp feedparser fiona flake8 flask folium fsspec gensim geopandas geopy gradio gspread h5py html2text
    html5lib httpx huggingface_hub humanize hypothesis imageio imageio_ffmpeg imutils isort jinja2 jira joblib json5 jsonschema jupyter keras
    kubernetes langchain langdetect librosa lightgbm litellm llama_index loguru lxml markdown markdownify markitdown matplotlib mcp mediapipe
    mistune mlflow modal moviepy msgpack mutagen mypy nbconvert nbformat netCDF4 networkx nh3 nibabel nltk notebook notion_client numba numpy
    ollama onnx onnxruntime openai openpyxl optuna orjson packaging pandas paramiko parsel pdf2image pdfplumber peft pendulum pika pip playwright
    plotly polars praw prompt_toolkit psutil psycopg psycopg2 pyarrow pydantic pydantic_settings pydicom pydub pygments pymongo pymupdf pymysql
    pypandoc pypdf pyperclip pyproj pysam pytesseract pytest pytz qrcode questionary rapidfuzz rasterio ray rdkit redis replicate reportlab
    requests rich ruff s3fs scipy scrapy seaborn selenium semver sendgrid setuptools shapely slack_sdk soundfile soupsieve spacy sphinx sqlalchemy
    statsmodels streamlit stripe structlog svgwrite sympy tabulate tenacity tensorflow termcolor tiktoken toml tomli tomlkit torch torchvision
    tqdm trafilatura transformers twilio typer ujson ultralytics unidecode urllib3 uvicorn validators wandb watchdog weasyprint websockets wheel
    xarray xgboost xlrd xlsxwriter xmltodict yt_dlp zarr zstandard";

/// Scopes of npm that scripts use much. Any other may be one of the author's in a registry of theirs, and a stranger's in the public one.
const COMMON_SCOPES: &str = "
    @anthropic-ai @ast-grep @aws-sdk @azure @babel @biomejs @clack @cloudflare @discordjs @elastic @eslint @faker-js @fastify @google
    @google-cloud @googleapis @grpc @hono @huggingface @inquirer @langchain @mdx-js @mendable @microsoft @modelcontextprotocol @mozilla
    @nestjs @neondatabase @notionhq @octokit @openai @opentelemetry @playwright @prisma @puppeteer @remix-run @resvg @rollup @sentry @shopify
    @slack @smithy @stripe @supabase @svgr @swc @tailwindcss @tanstack @tensorflow @turf @types @typescript-eslint @upstash @vercel @vitejs
    @vue @xenova";

/// What authors call the folders of their own code, which bundlers find from the root of a project.
const SOURCE_FOLDERS: &str = "app common components config core helpers internal lib libs models modules scripts server services shared src
    tools types util utils";

/// Maximum number of folders beside a skill in which a module is looked for.
const MAX_FOLDERS: usize = 64;

/// Whether a name is that of a package which much is written for.
pub(crate) fn is_common_module(name: &str) -> bool {
    COMMON_MODULES.split_whitespace().any(|common| common.eq_ignore_ascii_case(name))
}

/// Whether a scope of npm, with its `@`, is one that much is written for.
pub(crate) fn is_common_scope(scope: &str) -> bool {
    COMMON_SCOPES.split_whitespace().any(|common| common == scope)
}

/// Whether folders of an author's own code often have this name.
pub(crate) fn is_source_folder(name: &str) -> bool {
    SOURCE_FOLDERS.split_whitespace().any(|folder| folder == name)
}

/// Whether a folder, or its `scripts`, has this module.
pub(crate) fn has_module(folder: &Path, module: &str) -> bool {
    [folder.to_owned(), folder.join("scripts")].iter().any(|folder| holds(folder, module))
}

/// Whether a folder, or its `scripts`, has a file or folder of this name that Node finds only by a path.
pub(crate) fn has_node_module(folder: &Path, name: &str) -> bool {
    const ENDINGS: [&str; 5] = ["js", "mjs", "cjs", "ts", "json"];
    let holds = |folder: &PathBuf| {
        folder.join(name).is_dir()
            || ENDINGS.iter().any(|ending| folder.join(format!("{name}.{ending}")).is_file())
    };
    [folder.to_owned(), folder.join("scripts")].iter().any(holds)
}

/// The folder near that of a skill that has this module: its author keeps there what several skills share.
pub(crate) fn neighbour_with_module(skill: &Path, module: &str) -> Option<PathBuf> {
    let above = skill.ancestors().skip(1).take(2).filter(|folder| folder.parent().is_some());
    above.into_iter().find_map(|folder| {
        let entries = std::fs::read_dir(folder).ok()?.flatten().take(MAX_FOLDERS);
        let beside = entries.map(|entry| entry.path()).filter(|path| path != skill && path.is_dir());
        let mut folders: Vec<PathBuf> = std::iter::once(folder.to_owned()).chain(beside).collect();
        folders[1..].sort_unstable();
        folders.into_iter().find(|folder| holds(folder, module))
    })
}

/// The folder near that of a skill that has the file of a path of Node's that begins with `../`, such as `../../_lib/words`: from whichever
/// folder the path counts.
pub(crate) fn neighbour_with_file(skill: &Path, path: &str) -> Option<PathBuf> {
    const ENDINGS: [&str; 6] = ["", ".js", ".cjs", ".mjs", ".json", "/index.js"];
    let parts = Path::new(path).components().skip_while(|part| *part == Component::ParentDir);
    let below: PathBuf = parts.clone().collect();
    let is_plain =
        parts.clone().all(|part| matches!(part, Component::Normal(_))) && parts.clone().count() > 1;
    let first = parts.clone().next().filter(|_| path.starts_with("../") && is_plain)?;
    let has_file = |folder: &&Path| {
        ENDINGS.iter().any(|ending| folder.join(format!("{}{ending}", below.display())).is_file())
    };
    let mut above = skill.ancestors().skip(1).take(2).filter(|folder| folder.parent().is_some());
    Some(above.find(has_file)?.join(first))
}

fn holds(folder: &Path, module: &str) -> bool {
    folder.join(module).is_dir() || folder.join(format!("{module}.py")).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_several_skills_share_is_found_beside_them() {
        let stage = tempfile::tempdir().unwrap();
        let skills = stage.path().join("x/skills");
        for folder in ["_lib/tables", "u/scripts", "../shared"] {
            fs::create_dir_all(skills.join(folder)).unwrap();
        }
        fs::write(skills.join("_lib/common.py"), "").unwrap();
        fs::write(skills.join("../shared/words.py"), "").unwrap();
        let skill = skills.join("u");
        let near = |module: &str| neighbour_with_module(&skill, module);
        assert_eq!(near("common"), Some(skills.join("_lib")));
        assert_eq!(near("tables"), Some(skills.join("_lib")));
        assert_eq!(near("words"), Some(stage.path().join("x/shared")));
        assert_eq!(near("requests"), None);
        fs::write(skills.join("_lib/words.cjs"), "").unwrap();
        assert_eq!(neighbour_with_file(&skill, "../../_lib/words"), Some(skills.join("_lib")));
        assert_eq!(neighbour_with_file(&skill, "../../_lib/words.cjs"), Some(skills.join("_lib")));
        for path in ["_lib/words", "../../_lib", "../../_lib/../_lib/words", "../../_lib/none"] {
            assert_eq!(neighbour_with_file(&skill, path), None, "{path}");
        }
    }

    #[test]
    fn common_packages_are_known_and_words_of_everybody_are_not() {
        for name in ["requests", "numpy", "lxml", "Jinja2", "yt_dlp"] {
            assert!(is_common_module(name), "{name}");
        }
        for name in [
            "common", "helpers", "utils", "lib", "core", "config", "tools", "shared", "models", "schemas",
            "client",
        ] {
            assert!(!is_common_module(name), "{name}");
        }
    }
}
