package xiaozhi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/tool"
)

// Boards with a camera send single pictures only. The tool video takes one at an interval: the
// board uploads each as any other photo, and the caller gets the newest ones at the end.

const (
	// minPictureInterval leaves the board time for everything else: it does nothing else while it
	// takes and uploads a picture (xiaozhi-esp32 main/mcp_server.cc, McpServer::DoToolCall).
	minPictureInterval, maxPictureInterval, defaultPictureInterval = 5, 3600, 30 // seconds
	// maxPictures and maxPicturesBytes limit the pictures in memory; older ones are dropped.
	maxPictures      = 12
	maxPicturesBytes = 2 << 20
	// maxSeriesTime limits a series that is not stopped, and how long it stays in memory.
	maxSeriesTime, seriesTTL = 30 * time.Minute, 30 * time.Minute
)

// videoTool is the tool of boards with a camera.
var videoTool = tool.Tool{
	Name: ToolVideo, Title: "Pictures at an interval",
	Description: fmt.Sprintf("Takes a picture with the board's camera at an interval (start), changes the interval (set), or ends it and returns the last %d pictures (stop). It ends by itself after %.0f minutes.",
		maxPictures, maxSeriesTime.Minutes()),
	Input: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"action":{"type":"string","enum":["start","stop","set"]},"interval":{"type":"integer","minimum":%d,"maximum":%d,"default":%d,"description":"Seconds between two pictures"}},"required":["action"],"additionalProperties":false}`,
		minPictureInterval, maxPictureInterval, defaultPictureInterval)),
	Audience: "user",
}

// pictureSeries is a series of pictures that the tool video started. The fields below stopped
// require Board.mu.
type pictureSeries struct {
	cancel  context.CancelFunc
	done    chan struct{} // closed when no picture is taken any more
	stopped chan struct{} // closed by stopVideo
	changed chan struct{} // the interval has changed; holds 1

	interval      time.Duration
	ends          time.Time
	taken, failed int
	lastError     string
	pictures      [][]byte // JPEG, the oldest first
}

// video carries out the tool video.
func (b *Board) video(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	var a struct {
		Action   string `json:"action"`
		Interval int    `json:"interval"`
	}
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return nil, tool.Fail(tool.BadArgs, "The arguments cannot be read: "+err.Error(), nil)
	}
	interval := time.Duration(a.Interval) * time.Second
	switch {
	case b.ownTool(remote.TakesPhoto) == "":
		return nil, tool.Fail(tool.Unknown, "The board has no camera.", nil)
	case a.Action == "start":
		return b.startVideo(call.Caller, interval)
	case a.Action == "stop":
		return b.stopVideo(ctx)
	case a.Interval == 0:
		return nil, tool.Fail(tool.BadArgs, "interval is missing.", nil)
	}
	return b.setVideo(interval)
}

func (b *Board) startVideo(who tool.Caller, interval time.Duration) (*tool.Result, error) {
	if interval == 0 {
		interval = defaultPictureInterval * time.Second
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.series != nil {
		return nil, tool.Fail(tool.Busy, "Pictures are taken already. Stop that first, or change its interval.", nil)
	}
	ctx, cancel := context.WithTimeout(b.ctx, maxSeriesTime)
	s := &pictureSeries{cancel: cancel, done: make(chan struct{}), stopped: make(chan struct{}),
		changed: make(chan struct{}, 1), interval: interval,
		ends: time.Now().Add(maxSeriesTime).UTC().Truncate(time.Second)}
	if !b.boards.spawn(func() {
		b.takePictures(ctx, s, who)
		close(s.done)
		netx.WaitUnless(b.ctx, s.stopped, seriesTTL)
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.series == s {
			b.series = nil
		}
	}) {
		cancel()
		return nil, tool.Fail(tool.Offline, "The server stops.", nil)
	}
	b.series = s
	return s.state(), nil
}

// state returns what is said of a series. Requires Board.mu.
func (s *pictureSeries) state() *tool.Result {
	return tool.JSON(map[string]any{"interval": int(s.interval.Seconds()), "ends_at": s.ends, "taken": s.taken,
		"failed": s.failed})
}

func (b *Board) setVideo(interval time.Duration) (*tool.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.series == nil {
		return nil, tool.Fail(tool.BadArgs, "No pictures are taken.", nil)
	}
	b.series.interval = interval
	select {
	case b.series.changed <- struct{}{}:
	default:
	}
	return b.series.state(), nil
}

// stopVideo ends a series. A picture that is being taken is still waited for, as long as the caller
// does.
func (b *Board) stopVideo(ctx context.Context) (*tool.Result, error) {
	b.mu.Lock()
	s := b.series
	b.mu.Unlock()
	if s == nil {
		return nil, tool.Fail(tool.BadArgs, "No pictures are taken.", nil)
	}
	s.cancel()
	select {
	case <-s.done:
	case <-ctx.Done(): // it can be stopped once more
		return nil, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.series != s {
		return nil, tool.Fail(tool.BadArgs, "No pictures are taken.", nil)
	}
	b.series = nil
	close(s.stopped)
	said := map[string]any{"taken": s.taken, "failed": s.failed, "returned": len(s.pictures)}
	if s.lastError != "" {
		said["last_error"] = s.lastError
	}
	return withPictures(tool.JSON(said), s.pictures...), nil
}

// takePictures takes pictures until ctx ends. While the board is asleep, it takes none.
func (b *Board) takePictures(ctx context.Context, s *pictureSeries, who tool.Caller) {
	defer b.addListener(who, listenVideo).stop()
	for ctx.Err() == nil {
		began := time.Now()
		b.takePicture(ctx, s, who)
		for ctx.Err() == nil {
			b.mu.Lock()
			wait := s.interval - time.Since(began)
			b.mu.Unlock()
			if wait <= 0 || netx.WaitUnless(ctx, s.changed, wait) {
				break
			}
		}
	}
}

func (b *Board) takePicture(ctx context.Context, s *pictureSeries, who tool.Caller) {
	l, camera := b.connection(), b.ownTool(remote.TakesPhoto)
	err := error(b.offlineError(""))
	var jpeg []byte
	if l != nil && camera != "" {
		_, jpeg, err = b.callCameraUnseen(ctx, l, &pendingPhoto{caller: who, plain: true},
			&tool.Call{Tool: camera, Args: photoQuestion, Caller: who})
		if err == nil && jpeg == nil {
			err = errNoCamera
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		s.taken++
		s.add(jpeg)
	case ctx.Err() == nil:
		s.failed++
		s.lastError = err.Error()
	}
}

// add adds a picture. Requires Board.mu.
func (s *pictureSeries) add(jpeg []byte) {
	s.pictures = append(s.pictures, jpeg)
	size := 0
	for i := len(s.pictures) - 1; i >= 0; i-- {
		size += len(s.pictures[i])
		if i < len(s.pictures)-1 && size > maxPicturesBytes || len(s.pictures)-i > maxPictures {
			s.pictures = append([][]byte(nil), s.pictures[i+1:]...)
			return
		}
	}
}
