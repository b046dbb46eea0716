package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version of Varve; release builds set it with -ldflags -X.
var Version = "0.1.0-dev"

// ReleaseVersion is the Cassandra version whose behaviour is followed, as
// clients see it in system.local.
const ReleaseVersion = "5.0.9"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(cmd.OutOrStdout(), "varve %s (CQL as Cassandra %s, protocol v3-v5, %s %s/%s)\n",
				fullVersion(), ReleaseVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

func fullVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return Version + "+" + s.Value[:12]
		}
	}
	return Version
}
