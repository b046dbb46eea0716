// Command chat is a small chat server that keeps its messages in PostgreSQL or
// in Varve, and the load driver that measures it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"varve/examples/chat/load"
	"varve/examples/chat/server"
	"varve/examples/chat/storage"
	"varve/move/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "chat", Short: "A chat server in PostgreSQL or Varve, and its load", SilenceUsage: true}
	root.AddCommand(serveCommand(), loadCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

// serveOptions are the flags of chat serve.
type serveOptions struct {
	http     string
	peers    []string
	postgres string
	varve    string
	keyspace string
	// A store that is being moved has both sides.
	move, toPostgres, toVarve string
}

func serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use: "serve", Short: "Run one chat node", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), &o) },
	}
	f := c.Flags()
	f.StringVar(&o.http, "http", "127.0.0.1:8080", "address of the page and of WebSockets")
	f.StringSliceVar(&o.peers, "peer", nil, "ws://host:port of another node (repeat for more)")
	f.StringVar(&o.postgres, "postgres", "", "keep messages in this PostgreSQL (a connection string)")
	f.StringVar(&o.varve, "varve", "", "keep messages in this Varve (host:port)")
	f.StringVar(&o.keyspace, "keyspace", "chat", "keyspace in Varve")
	f.StringVar(&o.move, "move", "", "take part in this move out of --postgres")
	f.StringVar(&o.toPostgres, "to-postgres", "", "the move's target, a PostgreSQL")
	f.StringVar(&o.toVarve, "to-varve", "", "the move's target, a Varve (host:port)")
	c.MarkFlagsOneRequired("postgres", "varve")
	return c
}

func serve(ctx context.Context, o *serveOptions) error {
	store, closeStore, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer closeStore()
	listener, err := net.Listen("tcp", o.http)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.http, err)
	}
	node := server.New(store, o.peers)
	web := &http.Server{Handler: node.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	slog.Info("chat node is ready", "page", "http://"+listener.Addr().String())
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	node.Close()
	return errors.Join(err, web.Close())
}

func openStore(ctx context.Context, o *serveOptions) (storage.Store, func(), error) {
	if o.move != "" {
		return openMoving(ctx, o)
	}
	if o.postgres != "" {
		return postgresStore(ctx, o.postgres)
	}
	return varveStore(ctx, o.varve, o.keyspace)
}

func postgresStore(ctx context.Context, dsn string) (storage.Store, func(), error) {
	pool, err := openPostgres(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	return storage.NewPostgres(pool), pool.Close, nil
}

func varveStore(ctx context.Context, address, keyspace string) (storage.Store, func(), error) {
	session, err := openVarve(ctx, address, keyspace)
	if err != nil {
		return nil, nil, err
	}
	return storage.NewVarve(session), session.Close, nil
}

// openMoving opens both sides of a move and routes between them.
func openMoving(ctx context.Context, o *serveOptions) (store storage.Store, closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, f := range closers {
			f()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	if o.postgres == "" || (o.toPostgres == "") == (o.toVarve == "") {
		return nil, nil, errors.New("--move needs --postgres, and one of --to-postgres and --to-varve")
	}
	cfg := app.Config{Move: o.move, Origin: o.postgres, Target: o.toPostgres}
	origin, closeOrigin, err := postgresStore(ctx, o.postgres)
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, closeOrigin)
	var target storage.Store
	var closeTarget func()
	if o.toVarve != "" {
		cfg.TargetHosts = strings.Split(o.toVarve, ",")
		target, closeTarget, err = varveStore(ctx, o.toVarve, o.keyspace)
	} else {
		target, closeTarget, err = postgresStore(ctx, o.toPostgres)
	}
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, closeTarget)
	node, err := app.Open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	closers = append([]func(){func() {
		if err := node.Close(context.Background()); err != nil {
			slog.Warn("the node's part in the move did not end well", "error", err)
		}
	}}, closers...)
	return storage.NewRouted(node, origin, target), closeAll, nil
}

func openPostgres(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if _, err := pool.Exec(ctx, storage.PostgresSchema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("create the table of messages: %w", err)
	}
	return pool, nil
}

func openVarve(ctx context.Context, address, keyspace string) (*gocql.Session, error) {
	cluster := gocql.NewCluster(strings.Split(address, ",")...)
	cluster.Timeout, cluster.ConnectTimeout = 10*time.Second, 10*time.Second
	admin, err := cluster.CreateSession()
	if err != nil {
		return nil, fmt.Errorf("connect to Varve at %s: %w", address, err)
	}
	defer admin.Close()
	err = admin.Query(fmt.Sprintf(`CREATE KEYSPACE IF NOT EXISTS %q
		WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`, keyspace)).ExecContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("create keyspace %s: %w", keyspace, err)
	}
	cluster.Keyspace = keyspace
	session, err := cluster.CreateSession()
	if err != nil {
		return nil, fmt.Errorf("connect to Varve at %s: %w", address, err)
	}
	for _, ddl := range storage.VarveSchema {
		if err := session.Query(ddl).ExecContext(ctx); err != nil {
			session.Close()
			return nil, fmt.Errorf("create the table of messages: %w", err)
		}
	}
	return session, nil
}

func loadCommand() *cobra.Command {
	var o load.Options
	var asJSON bool
	c := &cobra.Command{
		Use: "load", Short: "Send messages through chat nodes and measure their delivery", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			report, err := load.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(c.OutOrStdout()).Encode(report)
			} else {
				err = print(c, report)
			}
			if bad := report.Lost + report.Doubled + report.Inverted; err == nil && bad > 0 {
				err = fmt.Errorf("%d messages were lost, stored twice or out of order", bad)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.Nodes, "node", []string{"ws://127.0.0.1:8080"}, "chat nodes")
	f.IntVar(&o.Pairs, "pairs", 8, "rooms with a sender on one node and a receiver on the next")
	f.Float64Var(&o.Rate, "rate", 40, "messages a second over all pairs")
	f.DurationVar(&o.Duration, "duration", 30*time.Second, "how long to send")
	f.Int64Var(&o.Room, "room", 1_000_000, "number of the first room")
	f.DurationVar(&o.Reads, "reads", time.Second, "receivers mark all as read this often; 0 never")
	f.DurationVar(&o.Pages, "pages", 500*time.Millisecond, "receivers read a page of history this often; 0 never")
	f.Float64Var(&o.Edits, "edits", 0.02, "share of messages that are edited")
	f.Float64Var(&o.Deletes, "deletes", 0.01, "share of messages that are deleted")
	f.DurationVar(&o.Settle, "settle", 20*time.Second, "how long to wait for the last messages")
	f.IntVar(&o.Body, "body", 100, "bytes a message")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func print(c *cobra.Command, r *load.Report) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), `sent %d, acknowledged %d, delivered %d
delivery ms: p50 %.1f, p95 %.1f, p99 %.1f, max %.1f
%d pages ms: p50 %.1f, p95 %.1f
lost %d, stored twice %d, out of order %d, unanswered %d
`, r.Sent, r.Acknowledged, r.Delivered, r.P50, r.P95, r.P99, r.Max,
		r.Pages, r.PageP50, r.PageP95, r.Lost, r.Doubled, r.Inverted, r.Unanswered)
	for reason, n := range r.Errors {
		fmt.Fprintf(c.OutOrStdout(), "%d x %s\n", n, reason)
	}
	return err
}
