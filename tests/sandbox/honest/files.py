"""Reads, writes, lists and removes files."""
import os
import shutil

print(open("own").read(), end="")
os.makedirs("out/deep/er")
with open("out/deep/er/new", "w") as file:
    file.write("new\n")
print(open("out/deep/er/new").read(), end="")
print(*sorted(entry.name for entry in os.scandir(".")))
shutil.rmtree("out/deep")
print("still there" if os.path.exists("out/deep") else "removed")
