// Reads, writes, lists and removes files.
package main

import (
	"fmt"
	"os"
	"strings"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func show(path string) {
	text, err := os.ReadFile(path)
	check(err)
	fmt.Print(string(text))
}

func main() {
	show("own")
	check(os.MkdirAll("out/deep/er", 0o755))
	check(os.WriteFile("out/deep/er/new", []byte("new\n"), 0o644))
	show("out/deep/er/new")
	entries, err := os.ReadDir(".")
	check(err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	fmt.Println(strings.Join(names, " "))
	check(os.RemoveAll("out/deep"))
	if _, err := os.Stat("out/deep"); os.IsNotExist(err) {
		fmt.Println("removed")
	}
}
