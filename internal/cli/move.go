package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"varve/internal/move"
	"varve/internal/move/cql"
	"varve/internal/move/pg"
)

// exitRefused is the exit code of move commands that were refused for a reason
// that they print: nothing was changed.
const exitRefused = 3

func newMove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move",
		Short: "Take live tables out of PostgreSQL, with proof at every step, and back",
		Long: "Take live tables out of PostgreSQL into another PostgreSQL or into Varve while they are written.\n\n" +
			"Every command takes the move file, which says what is moved from where to where.\n" +
			"`varve move run` is the process that does the work; the other commands tell it what to do and wait.\n" +
			"Where none runs, they do it themselves until the move rests.\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused (the reasons are printed, nothing was changed).",
		RunE: commandOnly,
	}
	cmd.AddCommand(newMovePlan(), newMoveStart(), newMoveRun(), newMoveStatus())
	for _, c := range moveVerbs() {
		cmd.AddCommand(c)
	}
	return cmd
}

// moveFile reads the file that every move command takes.
func moveFile(args []string) (*move.File, []byte, error) {
	if len(args) != 1 {
		return nil, nil, usageError("takes one argument, the move file")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return nil, nil, err
	}
	f, err := move.ParseFile(text)
	return f, text, err
}

// openMoveState connects to the state rows, which lie on origin.
func openMoveState(ctx context.Context, f *move.File) (move.StateStore, error) {
	s, err := pg.OpenStates(ctx, f.Origin.Postgres)
	if err != nil {
		return nil, fmt.Errorf("open the state on origin: %w", err)
	}
	return s, nil
}

// openMoveSides connects to both stores.
func openMoveSides(log *slog.Logger) func(ctx context.Context, f *move.File) (origin, target move.Side, err error) {
	return func(ctx context.Context, f *move.File) (origin, target move.Side, err error) {
		origin, err = openMoveSide(ctx, f.Name, &f.Origin, log)
		if err != nil {
			return nil, nil, fmt.Errorf("origin: %w", err)
		}
		target, err = openMoveSide(ctx, f.Name, &f.Target, log)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("target: %w", err), origin.Close(ctx))
		}
		return origin, target, nil
	}
}

func openMoveSide(ctx context.Context, name string, e *move.Endpoint, log *slog.Logger) (move.Side, error) {
	if e.Varve == nil {
		return pg.Open(ctx, pg.Options{URL: e.Postgres, Move: name, Log: log})
	}
	v := e.Varve
	o := cql.Options{Hosts: v.Hosts, User: v.User}
	if v.User != "" {
		env := v.PasswordEnv
		if env == "" {
			env = "VARVE_MOVE_PASSWORD"
		}
		o.Password = os.Getenv(env)
	}
	if v.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if v.CA != "" {
			pem, err := os.ReadFile(v.CA)
			if err != nil {
				return nil, err
			}
			o.TLS.RootCAs = x509.NewCertPool()
			if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s holds no certificate", v.CA)
			}
		}
	}
	return cql.Open(ctx, o)
}

// moveOwner names this process in state rows and history.
func moveOwner() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s/%d", name, host, os.Getpid())
}

func moveLog(quiet bool) *slog.Logger {
	level := slog.LevelInfo
	if quiet {
		level = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
