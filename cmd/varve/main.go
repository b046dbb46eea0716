// Command varve is the Varve server and its tools in one program.
package main

import (
	"os"

	"varve/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
