package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
	openclaw "patchbay/internal/plug/openclaw/sim"
	nodewire "patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

// clientsFlag makes this program a process with devices. It is for internal use.
const clientsFlag = "-clients"

const (
	// openers is the number of devices of a process that connect for the first time at a time.
	openers = 24
	// reportInterval is the interval of a process's reports.
	reportInterval = 200 * time.Millisecond
	// bootAgain is the pause after a failed OTA request.
	bootAgain = time.Second
	// echoSubject is the subject on which a process answers bare requests.
	echoSubject = "bench.echo"
)

// clientConfig is the configuration of a process with devices, which it reads as one line of JSON.
// It ends with its standard input.
type clientConfig struct {
	Backends []backend `json:"places"`
	// Boards and Nodes are ranges of numbers: from, to.
	Boards    [2]int `json:"boards"`
	Nodes     [2]int `json:"nodes"`
	NodesFile string `json:"nodes_file"`
	Echo      string `json:"echo,omitempty"` // the NATS server for answering bare requests
}

// report is the periodic report of a process.
type report struct {
	Boards int `json:"boards"` // connected ones
	Nodes  int `json:"nodes"`
	connCounts
	Why string `json:"why,omitempty"` // of the last failure
}

func (r *report) add(o report) {
	r.Boards += o.Boards
	r.Nodes += o.Nodes
	r.Connects += o.Connects
	r.Refused += o.Refused
	r.Broken += o.Broken
	r.Unreached += o.Unreached
	if o.Why != "" {
		r.Why = o.Why
	}
}

func boardID(number int) (mac, client string) {
	return fmt.Sprintf("02:be:00:%02x:%02x:%02x", number>>16&0xff, number>>8&0xff, number&0xff),
		fmt.Sprintf("be000000-0000-4000-8000-%012x", number)
}

func nodeName(number int) string { return fmt.Sprint("node ", number) }

var (
	nodeCaps     = []string{nodewire.CapMCP}
	nodeCommands = []string{nodewire.CommandTool}
	nodeTools    = []nodewire.PluginTool{{
		PluginID: nodewire.PluginMCP, Name: "hall_mark", Description: "Sets a mark.",
		Parameters: json.RawMessage(`{"type":"object"}`), Command: nodewire.CommandTool,
		MCP: &nodewire.ToolRef{Server: "hall", Tool: "mark"},
	}}
)

// simClients are the devices of one process.
type simClients struct {
	*balancer
	boards []*sim.Board
	nodes  []*openclaw.Node           // nil: not created yet; guarded by mu
	made   func(i int) *openclaw.Node // creates a node, which connects at once
	failed atomic.Value               // string: the last failure
}

// clients runs a process with devices.
func clients(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o clientConfig
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		io.Copy(io.Discard, lines) //nolint:errcheck // only its end matters
		stop()
	}()
	if o.Echo != "" {
		conn, err := answerBare(o.Echo)
		if err != nil {
			return err
		}
		defer conn.Close()
	}
	f := &simClients{balancer: newBalancer(ctx, o.Backends)}
	if err := f.create(o); err != nil {
		return err
	}
	go f.watch(ctx)  // ends with the process, like all devices
	go f.turnOn(ctx) // as above
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := json.NewEncoder(out).Encode(f.report()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// answerBare answers requests with their own data.
func answerBare(url string) (*nats.Conn, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	_, err = conn.Subscribe(echoSubject, func(m *nats.Msg) { m.Respond(m.Data) }) //nolint:errcheck // the requester notices
	if err == nil {
		err = conn.Flush()
	}
	return conn, err
}

// create creates the boards, which do nothing yet, and reads the identities of the nodes.
func (f *simClients) create(o clientConfig) error {
	for i := o.Boards[0]; i < o.Boards[1]; i++ {
		mac, client := boardID(i)
		pin := -1
		if i < pinned {
			pin = i % instances
		}
		f.boards = append(f.boards, sim.New(sim.Options{
			OTA: "http://" + homeAddress + xiaozhi.OTAPath, MAC: mac, UUID: client, Profile: sim.FW25,
			Dial: f.dialer(i, pin),
			// Lateness is measured here, and is no violation.
			Latency: func() time.Duration { return 0 }, Slack: time.Hour,
		}))
	}
	text, err := os.ReadFile(o.NodesFile)
	if err != nil {
		return err
	}
	var devices []device
	if err := json.Unmarshal(text, &devices); err != nil {
		return err
	}
	f.nodes = make([]*openclaw.Node, o.Nodes[1]-o.Nodes[0])
	f.made = func(i int) *openclaw.Node {
		number := o.Nodes[0] + i
		d := devices[number]
		return openclaw.NewNode(openclaw.Options{
			URL: "ws://" + homeAddress, Token: d.Token, DeviceToken: d.Token, Identity: d.Identity,
			Name: nodeName(number), Caps: nodeCaps, Commands: nodeCommands, Tools: nodeTools,
			SkipIntro: true, Serial: true, Handler: markNothing,
			Transport: &http.Transport{DialContext: f.dialer(1<<17+number, -1), DisableKeepAlives: true},
		})
	}
	return nil
}

func markNothing(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"content":[]}`), nil
}

// turnOn starts all devices for the first time.
func (f *simClients) turnOn(ctx context.Context) {
	var next atomic.Int64
	var work sync.WaitGroup
	for range openers {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(f.boards)+len(f.nodes) &&
				ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if i < len(f.boards) {
					f.boot(ctx, f.boards[i])
				} else {
					f.join(ctx, i-len(f.boards))
				}
			}
		})
	}
	work.Wait()
}

func (f *simClients) boot(ctx context.Context, b *sim.Board) {
	for ctx.Err() == nil {
		err := b.Boot(ctx)
		if err == nil {
			return
		}
		f.failed.Store("a board: " + err.Error())
		_ = netx.Wait(ctx, bootAgain)
	}
}

func (f *simClients) join(ctx context.Context, i int) {
	n := f.made(i)
	f.mu.Lock()
	f.nodes[i] = n
	f.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if n.AwaitConnected(limit) != nil { // it keeps trying
		s, _ := n.State()
		f.failed.Store(fmt.Sprint("a node: ", s.Err))
	}
}

// report counts the connected devices.
func (f *simClients) report() report {
	r := report{connCounts: f.counted()}
	for _, b := range f.boards {
		if b.View().Online {
			r.Boards++
		}
	}
	f.mu.Lock()
	nodes := append([]*openclaw.Node(nil), f.nodes...)
	f.mu.Unlock()
	for _, n := range nodes {
		if n == nil {
			continue
		}
		if s, _ := n.State(); s.Connected {
			r.Nodes++
		}
	}
	r.Why, _ = f.failed.Load().(string)
	return r
}
