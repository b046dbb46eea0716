// Command varve is the Varve server and its tools in one program.
package main

import (
	"os"
	_ "time/tzdata" // CQL timestamps may name time zones; machines may lack their data

	"varve/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
