package xiaozhi

import (
	"context"
	"encoding/json"

	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/tool"
)

// initialize carries out [hub.MessageInitialize]: it sends the caller's capabilities to the board
// and returns its answer. A board that is asleep is known from its last connection.
func (b *Board) initialize(ctx context.Context, args json.RawMessage) (*tool.Result, error) {
	var a struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, tool.Fail(tool.BadArgs, "The arguments cannot be read: "+err.Error(), nil)
	}
	if l := b.connection(); l != nil {
		return l.remote.Initialize(ctx, a.Capabilities)
	}
	b.mu.Lock()
	known := b.toolset.Catalog
	b.mu.Unlock()
	if known.Board == "" {
		return nil, b.offlineError("")
	}
	return remote.Introduce(known), nil
}

// sendNotification carries out [hub.MessageNotify].
func (b *Board) sendNotification(args json.RawMessage) (*tool.Result, error) {
	var a struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, tool.Fail(tool.BadArgs, "The arguments cannot be read: "+err.Error(), nil)
	}
	l := b.connection()
	if l == nil {
		return nil, b.offlineError("")
	}
	if err := l.remote.Notify(a.Method, a.Params); err != nil {
		return nil, err
	}
	return tool.JSON(map[string]bool{"delivered": true}), nil
}
