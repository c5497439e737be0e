package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// ownTimeout is how long a board may take for what costs it next to nothing.
	ownTimeout = 10 * time.Second
	// maxTools is how many tools of a board are taken. More do not fit into the
	// minds of models, and each of them costs memory here.
	maxTools = 200
	// maxPages ends lists that never do. Boards send some 20 tools a page.
	maxPages = 100
)

// Vision is where a board sends its photos: see package wire for what a URL may
// look like. Without a URL the board keeps the one that it was told last.
type Vision struct{ URL, Token string }

// refusal is an error that a board answered with.
type refusal struct {
	code int // 0 before firmware 2.5
	text string
}

func (r *refusal) Error() string { return "the board refuses: " + r.text }

// Start greets the board, tells it where photos go, and finds out which tools it
// has, the first time; see [Options].Known. It says whether they are others than before.
// Boards forget where photos go when they restart, so it is called for each connection,
// and again when the token changes.
//
// The error is ctx's, or wraps [ErrSilent], [ErrClosed] or what Send returned, or
// says what the board refused. The board may have tools nevertheless: those that
// were known.
func (c *Client) Start(ctx context.Context, v Vision) (changed bool, err error) {
	raw, err := c.own(ctx, "initialize", helloParams(v))
	if no, ok := errors.AsType[*refusal](err); ok {
		c.log.Warn("a board does not want to be greeted", "why", no.text) // it may have tools nevertheless
	} else if err != nil {
		return false, fmt.Errorf("initialize: %w", err)
	}
	next := Catalog{Firmware: c.opt.Firmware, Build: c.opt.Build}
	next.greeted(raw)
	c.mu.Lock()
	done := c.listed && c.catalog.stillGood(&next)
	c.mu.Unlock()
	if done {
		return false, nil
	}
	return c.list(ctx, next, false)
}

// Refresh lists the board's tools again, whatever is known. It says whether they
// are others than before. The error is as that of Start.
func (c *Client) Refresh(ctx context.Context) (changed bool, err error) {
	old := c.Catalog()
	return c.list(ctx, Catalog{Board: old.Board, Firmware: old.Firmware, Build: old.Build}, true)
}

// Alive finds out whether the board still answers, by asking for something that no
// board knows. It waits until the board has done what it is doing. The error is
// ctx's, or wraps [ErrSilent], [ErrClosed] or what Send returned.
func (c *Client) Alive(ctx context.Context) error {
	_, err := c.ask(ctx, order{method: "ping", params: []byte("{}"), limit: ownTimeout, own: true})
	return err
}

// own sends a request that does the same if it comes twice, and sends it again if
// there is no answer.
func (c *Client) own(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	o := order{method: method, params: params, limit: ownTimeout, own: true}
	a, err := c.ask(ctx, o)
	if errors.Is(err, ErrSilent) {
		c.log.Debug("a board is asked once more", "method", method)
		a, err = c.ask(ctx, o)
	}
	switch {
	case err != nil:
		return nil, err
	case a.err != nil:
		return nil, readRefusal(a.err)
	}
	return a.result, nil
}

func helloParams(v Vision) []byte {
	b := []byte(`{"protocolVersion":"2024-11-05","capabilities":{`)
	if v.URL != "" {
		b = jsonrpc.AppendText(append(b, `"vision":{"url":`...), v.URL)
		if v.Token != "" {
			b = jsonrpc.AppendText(append(b, `,"token":`...), v.Token)
		}
		b = append(b, '}')
	}
	return append(b, `},"clientInfo":{"name":"patchbay","version":"1"}}`...)
}

// list asks for all tools and replaces what is known. What is wrong with a later
// page does not touch those before it. Unless whole is set, the first page is enough
// if nothing speaks for other tools.
func (c *Client) list(ctx context.Context, next Catalog, whole bool) (changed bool, err error) {
	seen := map[string]bool{} // cursors
	old := c.Catalog()
	for cursor := ""; ; {
		var more string
		if more, err = c.page(ctx, &next, cursor); err != nil {
			break
		}
		seen[cursor] = true
		if !whole && next.Page == old.Page && next.Build != "" && next.Build == old.Build && old.stillGood(&next) {
			c.markListed()
			return false, nil
		}
		switch {
		case more == "" || next.Cut != "":
		case len(next.Tools) == maxTools:
			next.Cut = cutMany
		case seen[more]:
			next.Cut = "the board lists the same tools again and again"
		case len(seen) == maxPages:
			next.Cut = fmt.Sprintf("the list has more than %d pages", maxPages)
		default:
			cursor = more
			continue
		}
		break
	}
	if err != nil && len(next.Tools) > 0 && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		next.Cut, err = err.Error(), nil
	}
	if err != nil {
		return c.keepOld(&next), fmt.Errorf("tools/list: %w", err)
	}
	if next.Cut != "" || next.Skipped > 0 {
		c.log.Warn("not all tools of a board can be used", "tools", len(next.Tools), "skipped", next.Skipped, "cut", next.Cut)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = !sameTools(c.catalog.Tools, next.Tools)
	c.catalog, c.listed = next, true
	return changed, nil
}

func (c *Client) markListed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = true
}

// keepOld keeps the tools that are known when there is no list, unless they belong
// to other firmware. It says whether they are gone.
func (c *Client) keepOld(next *Catalog) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sameBuild := c.catalog.Build == "" || c.catalog.Build == next.Build
	if c.catalog.Board == next.Board && c.catalog.Firmware == next.Firmware && sameBuild {
		return false
	}
	changed = len(c.catalog.Tools) > 0
	c.catalog = Catalog{Board: next.Board, Firmware: next.Firmware, Build: next.Build, Cut: "the board did not list its tools"}
	return changed
}

// page asks for one page and adds its tools. It returns where the next begins.
// Tools for people are asked for on every page, or the firmware takes the cursor
// for that of another list; firmware before 2.0 does not know the word.
func (c *Client) page(ctx context.Context, next *Catalog, cursor string) (more string, err error) {
	params := append(jsonrpc.AppendText([]byte(`{"cursor":`), cursor), `,"withUserTools":true}`...)
	raw, err := c.own(ctx, "tools/list", params)
	if err != nil {
		return "", err
	}
	if cursor == "" {
		sum := sha256.Sum256(raw)
		next.Page = hex.EncodeToString(sum[:16])
	}
	var list json.RawMessage
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "tools":
			list = in.Value
		case "nextCursor":
			more = jsonrpc.Text(in.Value)
		}
	}
	if len(list) == 0 || list[0] != '[' {
		return "", errors.New("the board's list of tools cannot be read")
	}
	next.take(jsonrpc.Elements(list))
	return more, nil
}

var _ tool.Provider = (*Client)(nil)
