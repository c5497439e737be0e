package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// plugLimit is how long a call waits for a device to be plugged in that was
	// approved freshly: the server looks for such devices every second.
	plugLimit = 3 * time.Second
	fresh     = 10 * time.Second
	// learnLimit is how long a call waits for a device that woke a moment ago to tell
	// which tools it has: it is asked when it connects for the first time.
	learnLimit = 3 * time.Second
)

var errToolAsks = tool.Fail(tool.Failed, "The tool asks back before it goes on, and nobody can be asked here.", nil)

// awaitRegistration waits until a device is plugged in that was approved a moment ago.
func (s *Service) awaitRegistration(ctx context.Context, d store.Device) {
	if time.Since(d.Approved) > fresh {
		return
	}
	changes, forget := s.Hub.WatchTools()
	defer forget()
	over := time.NewTimer(plugLimit)
	defer over.Stop()
	for {
		if _, _, tools := s.Hub.FindProvider(hub.DeviceProviderID(d.Number)); len(tools) > 0 {
			return
		}
		select {
		case <-changes:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// DeviceTools lists a device's tools by their own names, with what its owner and the
// caller's rules say about them.
func (s *Service) DeviceTools(ctx context.Context, c Caller, d store.Device) ([]hub.Listing, error) {
	s.awaitRegistration(ctx, d)
	return s.KnownTools(c, d)
}

// KnownTools is [Service.DeviceTools] as far as they are known now.
func (s *Service) KnownTools(c Caller, d store.Device) ([]hub.Listing, error) {
	return s.Hub.ProviderInventory(hub.DeviceProviderID(d.Number), c.Rules)
}

// DeviceCall is a call of a tool of a device.
type DeviceCall struct {
	// Tool is the name that it has there, or its full one.
	Tool string
	Args json.RawMessage
	// Channel and Agent say by what it is called, for the audit trail.
	Channel, Agent string
	// Progress is told how far the work is; nil: nobody wants to know.
	Progress func(tool.Progress)
}

// CallDevice calls a tool of a device on behalf of the device's owner. Its error is a
// *[tool.Error].
func (s *Service) CallDevice(ctx context.Context, c Caller, d store.Device, q DeviceCall) (*tool.Result, error) {
	// Not the owner's inventory, which can be that of thousands of devices: the board
	// decides what may be called.
	s.awaitRegistration(ctx, d)
	o := s.findTool(ctx, d, q.Tool)
	if o == nil {
		return nil, s.noTool(d, q.Tool)
	}
	who := hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: d.Owner, Actor: c.ActsFor(d.Owner), Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound,
		Channel: q.Channel, Program: q.Agent, Lang: string(c.Lang),
	}}
	res, err := s.Hub.Call(ctx, who, o.Name, &tool.Call{Args: q.Args, Progress: q.Progress})
	if err != nil {
		return nil, err
	}
	if res.InputRequired != nil {
		return res, errToolAsks
	}
	return res, nil
}

// findTool finds a tool of a device, by the name that it has there or by its full one.
func (s *Service) findTool(ctx context.Context, d store.Device, name string) *hub.RegisteredTool {
	changes, forget := s.Hub.WatchTools()
	defer forget()
	over := time.NewTimer(learnLimit)
	defer over.Stop()
	for {
		_, held, list := s.Hub.FindProvider(hub.DeviceProviderID(d.Number))
		i := slices.IndexFunc(list, func(o *hub.RegisteredTool) bool { return o.Tool.Name == name })
		if i < 0 {
			i = slices.IndexFunc(list, func(o *hub.RegisteredTool) bool { return o.Name == name })
		}
		if i >= 0 {
			return list[i]
		}
		if !held || slices.ContainsFunc(list, isOwnTool) {
			return nil // it sleeps, or has told
		}
		select {
		case <-changes:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// isOwnTool reports whether a tool is one that the device itself has told of: those have
// dots in their names.
func isOwnTool(o *hub.RegisteredTool) bool { return strings.Contains(o.Tool.Name, ".") }

// noTool says why a device has no such tool. What one can do that has not been awake
// yet is not known.
func (s *Service) noTool(d store.Device, name string) *tool.Error {
	switch {
	case !s.Awake(d.Number) && s.transport(d) == store.TransportMQTT:
		return tool.Fail(tool.Offline,
			fmt.Sprintf("The device %s is not connected at the moment, and no tool %s of it is known. Call again when it is back.", d.Name, name), nil)
	case !s.Awake(d.Number):
		return tool.Fail(tool.Offline, fmt.Sprintf("The device %s is asleep, and no tool %s of it is known.", d.Name,
			name), nil)
	}
	return tool.Fail(tool.Unknown, fmt.Sprintf("The device %s has no tool %s.", d.Name, name), nil)
}
