package api

import (
	"net/http"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

// maxDeviceBody limits the body of a change of a device, in bytes.
const maxDeviceBody = 64 << 10

// sayLimit limits the time until a text is spoken, and whatever is spoken before it.
const sayLimit = 10 * time.Minute

// Operations on devices.
var (
	Devices        = define("GET /api/v1/devices", "List devices", (*control.Service).Devices)
	WaitingDevices = define("GET /api/v1/devices/waiting", "List devices that wait for approval",
		(*control.Service).WaitingDevices)
	ApproveDevice = define("POST /api/v1/devices/approve", "Approve a device by its pairing code",
		(*control.Service).ApproveDevice).taking(maxDeviceBody)
	Device       = define("GET /api/v1/devices/{device}", "Return a device", (*control.Service).Device)
	ChangeDevice = define("PATCH /api/v1/devices/{device}", "Update the name, room, bot or transport of a device",
		(*control.Service).ChangeDevice).taking(maxDeviceBody)
	RemoveDevice = define("DELETE /api/v1/devices/{device}", "Delete a device", (*control.Service).RemoveDevice)
	DeviceVoice  = define("GET /api/v1/devices/{device}/voice", "Return how a device hears and speaks",
		(*control.Service).DeviceVoice)
	ChangeDeviceVoice = define("PATCH /api/v1/devices/{device}/voice", "Update how a device hears and speaks",
		(*control.Service).ChangeDeviceVoice).taking(maxDeviceBody)
	DeviceTools = define("GET /api/v1/devices/{device}/tools", "List the tools of a device",
		(*control.Service).ListDeviceTools)
	SayDevice = define("POST /api/v1/devices/{device}/say", "Have a device say a text aloud",
		(*control.Service).SayDevice).taking(maxDeviceBody).lasting(sayLimit)
	DeviceMusic = define("POST /api/v1/devices/{device}/music", "Play, pause, resume or end music on a device",
		(*control.Service).DeviceMusic).taking(maxDeviceBody)
	DeviceTimers = define("GET /api/v1/devices/{device}/timers", "List the timers and reminders of a device",
		(*control.Service).DeviceTimers)
	SetDeviceTimer = define("POST /api/v1/devices/{device}/timers", "Set a timer or a reminder on a device",
		(*control.Service).SetDeviceTimer).taking(maxDeviceBody)
	CancelDeviceTimer = define("DELETE /api/v1/devices/{device}/timers/{timer}", "Cancel a timer of a device",
		(*control.Service).CancelDeviceTimer)
	Recordings = define("GET /api/v1/devices/{device}/recordings", "List what is recorded of a device, newest first",
		(*control.Service).Recordings)
	RemoveRecordings = define("DELETE /api/v1/devices/{device}/recordings",
		"Permanently delete everything that is recorded of a device", (*control.Service).RemoveRecordings)
)

// deviceOperations adds the operations on devices, their tools and their notices.
func (s *Server) deviceOperations() {
	s.document("GET /api/v1/notices", "Stream device notifications as JSON lines", "application/x-ndjson", noticesOf{},
		NoticeLine{}, s.notices)
	s.operate(Devices, WaitingDevices, ApproveDevice, Device, ChangeDevice, RemoveDevice, DeviceVoice,
		ChangeDeviceVoice, DeviceTools, SayDevice, DeviceMusic, DeviceTimers, SetDeviceTimer,
		CancelDeviceTimer, Recordings, RemoveRecordings)
	s.recordingFiles()
	s.document("POST /api/v1/devices/{device}/tools/{tool}/call", "Call a tool of a device and stream progress and result as JSON lines",
		"application/x-ndjson", deviceCall{}, ToolLine{}, s.callDevice)
	s.document("GET /api/v1/devices/{device}/listen", "Stream the microphone of a device", "audio/ogg", control.DeviceRef{}, nil,
		s.listen)
}

// device returns the device that a request names. If it returns false, it has responded.
func (s *Server) device(w http.ResponseWriter, r *http.Request, c control.Caller) (store.Device, bool) {
	d, err := s.FindDevice(r.Context(), c, r.PathValue("device"))
	if err != nil {
		s.fails(w, r, err)
		return d, false
	}
	return d, true
}
