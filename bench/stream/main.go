// Command stream measures what the hub adds to a streamed answer: the time between a bot emitting a
// piece and the client reading it, and the pieces per second, for several numbers of concurrent
// answers. A bare net/http handler that writes the same events is measured in the same rounds,
// alternately, since the speed of a machine drifts.
//
//	go run ./bench/stream [-answers 1,50,500] [-pieces 200] [-rounds 3] [-gap 100ms] [-ramp 2s]
//
// With a gap between the pieces it measures the delay at a steady rate. The questions come at
// random times during -ramp, like those of people; with -ramp 0 they all come at the same time, and
// the delays show the cost of starting them. With -gap 0 each bot emits as fast as it can, which
// measures throughput.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/fetch"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

func main() {
	answers := flag.String("answers", "1,50,500", "answers at a time, separated by commas")
	pieces := flag.Int("pieces", 100, "pieces an answer")
	rounds := flag.Int("rounds", 3, "rounds; each measures every server once")
	gap := flag.Duration("gap", 100*time.Millisecond, "pause between two pieces of an answer; 0 for none")
	ramp := flag.Duration("ramp", 2*time.Second, "time over which the questions come")
	flag.Parse()
	if err := run(os.Stdout, *answers, load{pieces: *pieces, gap: *gap, ramp: *ramp}, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

// load is the load of a round.
type load struct {
	answers, pieces int
	gap, ramp       time.Duration
}

// result is the result of a round.
type result struct {
	delays []time.Duration
	took   time.Duration
	wrong  int // lost, duplicate or misordered pieces
}

func run(out io.Writer, answers string, l load, rounds int) error {
	h, err := startHub(l)
	if err != nil {
		return err
	}
	defer h.stop()
	bare := startBare(l)
	defer bare.stop()

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%d pieces an answer, %v between them, questions within %v, %d rounds\n", l.pieces, l.gap, l.ramp,
		rounds)
	fmt.Fprintln(table, "answers\tserver\tp50\tp99\tmax\tpieces/s\twrong\t")
	for _, field := range strings.Split(answers, ",") {
		if l.answers, err = strconv.Atoi(strings.TrimSpace(field)); err != nil {
			return err
		}
		servers := []*target{bare, h}
		sums := make([]result, len(servers))
		for range rounds {
			for i, s := range servers {
				r, err := s.round(l)
				if err != nil {
					return err
				}
				sums[i].delays = append(sums[i].delays, r.delays...)
				sums[i].took += r.took
				sums[i].wrong += r.wrong
			}
		}
		for i, s := range servers {
			d := sums[i].delays
			slices.Sort(d)
			fmt.Fprintf(table, "%d\t%s\t%v\t%v\t%v\t%.0f\t%d\t\n", l.answers, s.name,
				at(d, .5), at(d, .99), at(d, 1), float64(len(d))/sums[i].took.Seconds(), sums[i].wrong)
		}
	}
	return table.Flush()
}

func at(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)].Round(time.Microsecond)
}

// target is a server under load.
type target struct {
	name string
	url  string
	key  string
	stop func()
}

// round requests many answers at once and reads all of them.
func (t *target) round(l load) (result, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.answers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	results := make([]result, l.answers)
	errs := make([]error, l.answers)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range l.answers {
		wg.Go(func() {
			if l.ramp > 0 {
				time.Sleep(rand.N(l.ramp))
			}
			results[i], errs[i] = t.listen(client, l, i)
		})
	}
	wg.Wait()
	sum := result{took: time.Since(start)}
	for i, r := range results {
		if errs[i] != nil {
			return sum, errs[i]
		}
		sum.delays = append(sum.delays, r.delays...)
		sum.wrong += r.wrong
	}
	return sum, nil
}

// listen reads one answer. Each piece is "number/nanoseconds since epoch ".
func (t *target) listen(client *http.Client, l load, n int) (result, error) {
	var r result
	body := fmt.Sprintf(`{"message_id":"%d-%d","agent_id":"1","message":[{"role":"user","type":"text","text":"go"}]}`,
		time.Now().UnixNano(), n)
	req, err := http.NewRequest(http.MethodPost, t.url, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	req.Header.Set("Authorization", "Bearer "+t.key)
	res, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	r.delays = make([]time.Duration, 0, l.pieces)
	lines := bufio.NewReaderSize(res.Body, 4096)
	mark := []byte(`"answer_stream":"`)
	for {
		line, err := lines.ReadSlice('\n')
		now := time.Now()
		if err == io.EOF {
			break
		}
		if err != nil {
			return r, err
		}
		i := bytes.Index(line, mark)
		if i < 0 || line[i+len(mark)] == '"' {
			continue
		}
		number, rest, _ := strings.Cut(string(line[i+len(mark):]), "/")
		stamp, _, _ := strings.Cut(rest, " ")
		ns, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return r, fmt.Errorf("a piece without a time: %q", line)
		}
		if number != strconv.Itoa(len(r.delays)) {
			r.wrong++
		}
		r.delays = append(r.delays, now.Sub(time.Unix(0, ns)))
	}
	r.wrong += max(l.pieces-len(r.delays), len(r.delays)-l.pieces)
	return r, nil
}

// piece is the text of a piece: its number and the time of its emission.
func piece(i int) string {
	return strconv.Itoa(i) + "/" + strconv.FormatInt(time.Now().UnixNano(), 10) + " "
}

// startBare starts a handler that only writes events.
func startBare(l load) *target {
	return serve("net/http", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		pause := newPause(l.gap)
		defer pause.stop()
		for i := range l.pieces {
			fmt.Fprintf(w,
				"event: message\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"%s\",\"message_id\":\"1\",\"agent_id\":\"1\",\"is_finish\":false}\n\n", piece(i))
			control.Flush()
			pause.wait()
		}
		fmt.Fprint(w, "event: done\ndata: {\"is_finish\":true}\n\n")
	}))
}

// startHub starts a whole hub with a bot that emits pieces.
func startHub(l load) (*target, error) {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Options{Folder: folder})
	if err != nil {
		return nil, err
	}
	box, err := seal.Open(folder)
	if err != nil {
		return nil, err
	}
	messages, err := bus.Open(ctx, bus.Options{})
	if err != nil {
		return nil, err
	}
	kind := hub.Kind{Name: "source", Build: func(store.Bot, any) (talk.Bot, error) { return source(l), nil }}
	registry := hub.NewRegistry(db, box, []hub.Kind{kind}, func() any { return new(rokid.Settings) })
	log := slog.New(slog.DiscardHandler)
	metrics := prometheus.NewRegistry()
	h, err := hub.New(hub.Options{Store: db, Registry: registry, Bus: messages, Logger: log, Registerer: metrics})
	if err != nil {
		return nil, err
	}
	accounts := account.New(db, box, nil)
	person, err := accounts.AddPerson(ctx, "bench", account.RoleAdmin, "en", "")
	if err != nil {
		return nil, err
	}
	if _, _, err := registry.Add(ctx, hub.NewBot{Owner: person.ID, Name: "source", Kind: "source"}); err != nil {
		return nil, err
	}
	_, secret, err := accounts.AddKey(ctx, account.NewKey{Person: person.ID,
		Name: "bench", Scopes: []string{account.ScopeLingzhu}})
	if err != nil {
		return nil, err
	}
	photos := fetch.New(fetch.Options{})
	handler := rokid.New(rokid.Options{
		Accounts: accounts, Hub: h, Guard: account.NewGuard(10, nil), Photos: photos, BindingPhotos: photos,
		Logger: log, Registerer: metrics,
		Lang: i18n.Chinese, Address: func(*http.Request) netip.Addr { return netip.Addr{} },
	})
	t := serve("patchbay", observe.HandleRequests(log, metrics, handler))
	t.key = secret
	closeHTTP := t.stop
	t.stop = func() {
		closeHTTP()
		h.Close()
		messages.Close()
		db.Close()
		os.RemoveAll(folder)
	}
	return t, nil
}

// source is a bot that emits pieces.
type source load

func (s source) Answer(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
	pause := newPause(s.gap)
	defer pause.stop()
	for i := range s.pieces {
		if err := emit(talk.Text(piece(i))); err != nil {
			return err
		}
		pause.wait()
	}
	return nil
}

// pause is the wait between two pieces.
type pause struct{ tick *time.Ticker }

func newPause(gap time.Duration) pause {
	if gap == 0 {
		return pause{}
	}
	return pause{time.NewTicker(gap)}
}

func (p pause) wait() {
	if p.tick != nil {
		<-p.tick.C
	}
}

func (p pause) stop() {
	if p.tick != nil {
		p.tick.Stop()
	}
}

func serve(name string, h http.Handler) *target {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	return &target{name: name, url: "http://" + l.Addr().String() + "/sse/rokid", stop: func() { s.Close() }}
}
