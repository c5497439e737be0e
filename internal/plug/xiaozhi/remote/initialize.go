package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// setupTimeout is the timeout of requests that cost the board next to nothing.
	setupTimeout = 10 * time.Second
	// maxTools is how many tools of a board are used. More would overload models, and each costs
	// memory here.
	maxTools = 200
	// maxPages ends lists that do not end by themselves. Boards send some 20 tools per page.
	maxPages = 100
)

// Vision is where a board uploads its photos; see package wire for the restrictions on URLs.
// Without a URL the board keeps the last one.
type Vision struct{ URL, Token string }

// boardError is an error response of a board.
type boardError struct {
	code int // 0 before firmware 2.5
	text string
}

func (r *boardError) Error() string { return "the board refuses: " + r.text }

// Start sends initialize with the vision URL and token, and lists the board's tools the first time;
// see [Options].Known. It reports whether the tools have changed. Boards keep the vision URL in
// memory (xiaozhi-esp32 main/mcp_server.cc, McpServer::ParseCapabilities) and forget it when they
// restart, so Start is called for each connection, and again when the token changes.
//
// The error is ctx's, or wraps [ErrSilent], [ErrClosed], the error of Send, or the board's error.
// The known tools stay usable after an error, unless the firmware has changed.
func (c *Client) Start(ctx context.Context, v Vision) (changed bool, err error) {
	params := initializeParams(v, nil)
	raw, err := c.askWithRetry(ctx, "initialize", params)
	if no, ok := errors.AsType[*boardError](err); ok {
		c.log.Warn("a board does not want to be greeted", "why", no.text) // its tools may work nevertheless
	} else if err != nil {
		return false, fmt.Errorf("initialize: %w", err)
	}
	c.setInitialized(lastInitialize{v, params, raw})
	next := Catalog{Firmware: c.opt.Firmware, Build: c.opt.Build}
	next.setServerInfo(raw)
	c.mu.Lock()
	done := c.listed && c.catalog.isCurrent(&next)
	c.mu.Unlock()
	if done {
		return false, nil
	}
	return c.listTools(ctx, next, false)
}

// Refresh lists the board's tools again in any case. It reports whether they have changed. The
// error is as that of Start.
func (c *Client) Refresh(ctx context.Context) (changed bool, err error) {
	old := c.Catalog()
	return c.listTools(ctx, Catalog{Board: old.Board, Firmware: old.Firmware, Build: old.Build}, true)
}

// askWithRetry sends an idempotent request, and sends it once more if there is no answer.
func (c *Client) askWithRetry(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	o := outgoingRequest{method: method, params: params, timeout: setupTimeout, priority: true}
	a, err := c.ask(ctx, o)
	if errors.Is(err, ErrSilent) {
		c.log.Debug("a board is asked once more", "method", method)
		a, err = c.ask(ctx, o)
	}
	switch {
	case err != nil:
		return nil, err
	case a.err != nil:
		return nil, readBoardError(a.err)
	}
	return a.result, nil
}

// capabilityName matches names of capabilities that reach boards.
var capabilityName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)

// initializeParams returns the params of initialize with the capabilities of a caller, a JSON
// object or nil, except for vision and for names that firmware may read as another one: its strings
// end at a zero byte, it ignores case, and takes the first of two (cJSON_GetObjectItem).
func initializeParams(v Vision, capabilities []byte) []byte {
	b := []byte(`{"protocolVersion":"2024-11-05","capabilities":{`)
	if v.URL != "" {
		b = jsonrpc.AppendText(append(b, `"vision":{"url":`...), v.URL)
		if v.Token != "" {
			b = jsonrpc.AppendText(append(b, `,"token":`...), v.Token)
		}
		b = append(b, `},`...)
	}
	for in := jsonrpc.Scan(capabilities); in.Next(); {
		if name := string(in.Key); capabilityName.MatchString(name) && !strings.EqualFold(name, "vision") {
			b = append(append(append(jsonrpc.AppendText(b, name), ':'), in.Value...), ',')
		}
	}
	b = bytes.TrimSuffix(b, []byte(","))
	return append(b, `},"clientInfo":{"name":"patchbay","version":"1"}}`...)
}

// listTools lists all tools and replaces the catalog. An error on a later page truncates the list.
// Unless whole is set, the first page is enough if it and the build are unchanged.
func (c *Client) listTools(ctx context.Context, next Catalog, whole bool) (changed bool, err error) {
	seen := map[string]bool{} // cursors
	old := c.Catalog()
	for cursor := ""; ; {
		var more string
		if more, err = c.listPage(ctx, &next, cursor); err != nil {
			break
		}
		seen[cursor] = true
		if !whole && next.Page == old.Page && next.Build != "" && next.Build == old.Build && old.isCurrent(&next) {
			c.markListed()
			return false, nil
		}
		switch {
		case more == "" || next.Truncated != "":
		case len(next.Tools) == maxTools:
			next.Truncated = truncatedTooMany
		case seen[more]:
			next.Truncated = "the board lists the same tools again and again"
		case len(seen) == maxPages:
			next.Truncated = fmt.Sprintf("the list has more than %d pages", maxPages)
		default:
			cursor = more
			continue
		}
		break
	}
	if err != nil && len(next.Tools) > 0 && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		next.Truncated, err = err.Error(), nil
	}
	if err != nil {
		return c.keepOld(&next), fmt.Errorf("tools/list: %w", err)
	}
	if next.Truncated != "" || next.Skipped > 0 {
		c.log.Warn("not all tools of a board can be used", "tools", len(next.Tools), "skipped", next.Skipped,
			"cut", next.Truncated)
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

// keepOld keeps the known tools after a failed list, unless they belong to other firmware. It
// reports whether it dropped them.
func (c *Client) keepOld(next *Catalog) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sameBuild := c.catalog.Build == "" || c.catalog.Build == next.Build
	if c.catalog.Board == next.Board && c.catalog.Firmware == next.Firmware && sameBuild {
		return false
	}
	changed = len(c.catalog.Tools) > 0
	c.catalog = Catalog{Board: next.Board, Firmware: next.Firmware, Build: next.Build,
		Truncated: "the board did not list its tools"}
	return changed
}

// listPage lists one page, adds its tools, and returns the next cursor. withUserTools is set on
// every page, since the cursor depends on it; firmware before 2.0 ignores it (xiaozhi-esp32
// main/mcp_server.cc, McpServer::GetToolsList).
func (c *Client) listPage(ctx context.Context, next *Catalog, cursor string) (more string, err error) {
	params := append(jsonrpc.AppendText([]byte(`{"cursor":`), cursor), `,"withUserTools":true}`...)
	raw, err := c.askWithRetry(ctx, "tools/list", params)
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
	next.addTools(jsonrpc.Elements(list))
	return more, nil
}

var _ tool.Provider = (*Client)(nil)
