# A repository from its first commit on, in a project that may be written to.
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main .
git config core.autocrlf false
mkdir -p src
echo one > src/one
git add .
git commit -qm first
git mv src/one src/two
echo more >> src/two
git commit -qam second
git checkout -q -b side HEAD~1
git checkout -q main
git merge -q side
git tag v1
git gc -q
git stash list
git clone -q . clone
git -C clone log --oneline | wc -l
git diff --stat HEAD~1 | tail -1
git archive HEAD | tar t | tail -1
git status --short --untracked-files=no
rm -rf clone
