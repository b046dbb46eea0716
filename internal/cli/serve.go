package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"varve/internal/config"
	"varve/internal/console"
	"varve/internal/exec"
	"varve/internal/schema"
	"varve/internal/server"
	"varve/internal/store"
	"varve/internal/telemetry"
)

func newServe() *cobra.Command {
	d := config.Default()
	var (
		file string
		sets []string
		over config.Config
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: "Run the server until SIGTERM or SIGINT.\n\nSettings come from the file given with --config, then from the environment\n" +
			"(VARVE_CQL=…), then from flags; docs/varve.yaml lists them all with their defaults.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			started := time.Now()
			c, err := loadConfig(file)
			if err != nil {
				return err
			}
			for flag, apply := range map[string]func(){
				"data":    func() { c.DataDirectories = over.DataDirectories },
				"journal": func() { c.JournalDirectories = over.JournalDirectories },
				"cql":     func() { c.CQL = over.CQL },
				"http":    func() { c.HTTP = over.HTTP },
				"auth":    func() { c.Auth = over.Auth },
			} {
				if cmd.Flags().Changed(flag) {
					apply()
				}
			}
			for _, s := range sets {
				key, value, ok := cutSetting(s)
				if !ok {
					return usageError("--set %s is not of the form key=value", s)
				}
				if err := c.Set(key, value); err != nil {
					return usageError("--set: %w", err)
				}
			}
			if err := c.Validate(); err != nil {
				return fmt.Errorf("configuration: %w", err)
			}
			return runServer(cmd.Context(), c, started)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "YAML file with settings")
	f.StringSliceVar(&over.DataDirectories, "data", d.DataDirectories, "data directories, one shard each")
	f.StringSliceVar(&over.JournalDirectories, "journal", nil, "journal directories, one for each data directory")
	f.StringVar(&over.CQL, "cql", d.CQL, "address for CQL clients")
	f.StringVar(&over.HTTP, "http", d.HTTP, `address for metrics and health, "" for none`)
	f.StringVar(&over.Auth, "auth", d.Auth, "none or password")
	f.StringArrayVar(&sets, "set", nil, "any setting, as key=value; may be repeated")
	return cmd
}

func loadConfig(file string) (*config.Config, error) {
	c := config.Default()
	if file == "" {
		file = os.Getenv(config.EnvPrefix + "CONFIG")
	}
	if file != "" {
		if err := c.LoadFile(file); err != nil {
			return nil, err
		}
	}
	return c, c.LoadEnv(os.Environ())
}

func cutSetting(s string) (key, value string, ok bool) {
	for i := range s {
		if s[i] == '=' {
			return s[:i], s[i+1:], i > 0
		}
	}
	return "", "", false
}

// runServer opens everything from the disk up, serves until ctx ends, and
// closes it in the opposite order. Ports and certificates come first: a start
// that they fail leaves no new store behind.
func runServer(ctx context.Context, c *config.Config, started time.Time) (err error) {
	log, err := telemetry.NewLogger(os.Stderr, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	if c.MemoryLimit > 0 {
		debug.SetMemoryLimit(int64(c.MemoryLimit))
	}
	closing := func(what string, f func() error) {
		if cerr := f(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close %s: %w", what, cerr))
		}
	}
	doors, err := openDoors(c, log)
	if err != nil {
		return err
	}
	defer doors.close()
	// The catalogue needs the store and the store's background work the catalogue.
	var opened atomic.Pointer[schema.Catalog]
	st, err := store.Open(ctx, storeOptions(c, log, func() []*schema.Table { return tablesOf(opened.Load()) }))
	if err != nil {
		return err
	}
	defer closing("store", st.Close)
	catalog, err := schema.Open(ctx, st)
	if err != nil {
		return fmt.Errorf("open catalogue: %w", err)
	}
	opened.Store(catalog)
	node, err := nodeOf(c, st, doors.cql.Addr())
	if err != nil {
		return err
	}
	var srv *server.Server
	limits := exec.NewLimits()
	settings := console.NewSettings(c, limits)
	engine, err := exec.New(exec.Options{
		Store: st, Catalog: catalog, Logger: log, Node: node, Limits: limits, Auth: c.Auth == "password",
		Clients:  func() []exec.ClientInfo { return srv.Clients() },
		Settings: settings.List,
	})
	if err != nil {
		return fmt.Errorf("start executor: %w", err)
	}
	defer closing("executor", engine.Close)
	if srv, err = server.New(serverOptions(c, engine, doors.cql, log)); err != nil {
		return fmt.Errorf("start CQL server: %w", err)
	}
	doors.web.Store, doors.web.Engine, doors.web.Server, doors.web.Version = st, engine, srv, fullVersion()
	admin := &console.Admin{
		Settings: settings,
		Store:    st, Catalog: catalog, Engine: engine, Config: c, Node: node, Version: fullVersion(), Started: started,
	}
	return serveAll(ctx, log, srv, admin, doors, func() {
		log.Info("ready", "cql", doors.cql.Addr().String(), "http", doors.httpAddress(),
			"data", c.DataDirectories, "durability", c.Durability, "version", fullVersion(), "took", time.Since(started).String())
		warnDefaults(c, log, catalog)
	})
}

// serveAll runs the listeners until ctx ends or one of them fails.
func serveAll(
	ctx context.Context, log *slog.Logger, srv *server.Server, admin *console.Admin, doors *doors, ready func(),
) error {
	socket, err := admin.ListenSocket(admin.Config.AdminSocket())
	if err != nil {
		return errors.Join(err, srv.Close(ctx))
	}
	g, ctx := errgroup.WithContext(ctx)
	if doors.http != nil {
		g.Go(func() error { return doors.web.Serve(ctx, doors.http) })
	}
	g.Go(func() error { return admin.Serve(ctx, socket) })
	srv.Serve()
	g.Go(func() error {
		reloadOnHangup(ctx, log, srv.ReloadTLS, doors.web.ReloadTLS)
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		log.Info("stopping")
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return srv.Close(grace)
	})
	ready()
	return g.Wait()
}

// reloadOnHangup has certificates read again at each SIGHUP until ctx ends.
func reloadOnHangup(ctx context.Context, log *slog.Logger, reload ...func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			log.Info("SIGHUP: reading TLS certificates again")
			for _, f := range reload {
				f()
			}
		}
	}
}

func nodeOf(c *config.Config, st *store.Store, listening net.Addr) (exec.Node, error) {
	addr, err := c.Broadcast()
	if err != nil {
		return exec.Node{}, err
	}
	if tcp, err := netip.ParseAddrPort(listening.String()); err == nil && addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), tcp.Port())
	}
	n := exec.Node{
		ClusterName: c.ClusterName, Datacenter: c.Datacenter, Rack: c.Rack,
		ReleaseVersion: ReleaseVersion, HostID: st.HostID(), Address: addr,
	}
	// One node owns the whole ring, so its tokens only have to look like a node's: 16 even ones.
	for i := range int64(16) {
		n.Tokens = append(n.Tokens, math.MinInt64+(i<<60)+(1<<59))
	}
	return n, nil
}

func tablesOf(c *schema.Catalog) []*schema.Table {
	if c == nil {
		return nil
	}
	return c.Snapshot().StoredTables()
}
