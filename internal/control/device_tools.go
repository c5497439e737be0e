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
	// plugLimit is how long a call waits for the registration of a device that was just approved:
	// the server looks for such devices every second.
	plugLimit = 3 * time.Second
	fresh     = 10 * time.Second
	// learnLimit is how long a call waits for the tools of a device that just connected for the
	// first time.
	learnLimit = 3 * time.Second
)

var errToolAsks = tool.Fail(tool.Failed, "The tool asks back before it goes on, and nobody can be asked here.", nil)

// awaitRegistration waits until a device that was just approved is registered.
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

// DeviceTools lists a device's tools by their own names, with their state under the rules of the
// owner and of the caller.
func (s *Service) DeviceTools(ctx context.Context, c Caller, d store.Device) ([]hub.Listing, error) {
	s.awaitRegistration(ctx, d)
	return s.KnownTools(c, d)
}

// KnownTools is [Service.DeviceTools] without waiting.
func (s *Service) KnownTools(c Caller, d store.Device) ([]hub.Listing, error) {
	return s.Hub.ProviderInventory(hub.DeviceProviderID(d.Number), c.Rules)
}

// DeviceTool is a tool of a device.
type DeviceTool struct {
	// Own is the tool's name at its device, such as self.audio_speaker.set_volume.
	Own string `json:"own_name"`
	Tool
}

// DeviceToolList are the tools of a device.
type DeviceToolList struct {
	Tools []DeviceTool `json:"tools"`
}

// DeviceToolsQuery selects the tools of a device.
type DeviceToolsQuery struct {
	DeviceRef
	Schemas bool `query:"schemas"` // include their schemas
}

// ListDeviceTools lists the tools of a device.
func (s *Service) ListDeviceTools(ctx context.Context, c Caller, q DeviceToolsQuery) (DeviceToolList, error) {
	d, err := s.FindDevice(ctx, c, q.Device)
	if err != nil {
		return DeviceToolList{}, err
	}
	list, err := s.DeviceTools(ctx, c, d)
	if err != nil {
		return DeviceToolList{}, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return DeviceToolList{}, err
	}
	out := make([]DeviceTool, len(list))
	for i, l := range list {
		out[i] = DeviceTool{l.Tool.Name, ToolRow(l, store.Person{ID: d.Owner, Name: people[d.Owner]}, q.Schemas)}
	}
	return DeviceToolList{out}, nil
}

// DeviceCall is a call of a device's tool.
type DeviceCall struct {
	// Tool is its name at the device, or its full name.
	Tool string
	Args json.RawMessage
	// Confirmed means that the owner, who is the caller, has just proved who they are: then a tool
	// that is dangerous needs not be allowed by name for this one call.
	Confirmed bool
	// Channel and Agent are those of the call, for the audit trail.
	Channel, Agent string
	// Progress gets the progress of the call; it may be nil.
	Progress func(tool.Progress)
}

// CallDevice calls a tool of a device for the device's owner. Its error is a *[tool.Error].
func (s *Service) CallDevice(ctx context.Context, c Caller, d store.Device, q DeviceCall) (*tool.Result, error) {
	// The owner's inventory can have thousands of devices, so only this device's tools are read;
	// the hub checks the rules.
	s.awaitRegistration(ctx, d)
	o := s.findTool(ctx, d, q.Tool)
	if o == nil {
		return nil, s.noTool(d, q.Tool)
	}
	rules := c.Rules
	if q.Confirmed && c.Person == d.Owner {
		with, err := hub.ParseRules(rules)
		if err != nil {
			return nil, tool.Fail(tool.Failed, "", err)
		}
		with.Dangerous = append(with.Dangerous, o.OriginalName())
		rules = with.String()
	}
	who := hub.Access{Rules: rules, Caller: tool.Caller{
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

// findTool returns a tool of a device by its own or its full name.
func (s *Service) findTool(ctx context.Context, d store.Device, name string) *hub.RegisteredTool {
	changes, forget := s.Hub.WatchTools()
	defer forget()
	over := time.NewTimer(learnLimit)
	defer over.Stop()
	for {
		_, held, list := s.Hub.FindProvider(hub.DeviceProviderID(d.Number))
		i := slices.IndexFunc(list, func(o *hub.RegisteredTool) bool { return o.Tool.Name == name })
		if i < 0 {
			name := s.Hub.OriginalName(d.Owner, name)
			i = slices.IndexFunc(list, func(o *hub.RegisteredTool) bool { return o.OriginalName() == name })
		}
		if i >= 0 {
			return list[i]
		}
		if !held || slices.ContainsFunc(list, isOwnTool) {
			return nil // it is asleep, or its tools are known
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

// isOwnTool reports whether the device itself announced the tool: the names of those have dots.
func isOwnTool(o *hub.RegisteredTool) bool { return strings.Contains(o.Tool.Name, ".") }

// noTool returns the error for an unknown tool. The tools of a device that was never awake are not
// known.
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
