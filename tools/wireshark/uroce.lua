-- Wireshark and tshark: the packets that only devices of uroce exchange. These are the selective
-- acknowledgement (transport/wire/selective_ack.h), and the management datagram by which two
-- devices find each other (transport/peers/peer_query.h).
--
--   tshark -X lua_script:uroce.lua -r FILE -Y uroce
--   cp uroce.lua ~/.local/lib/wireshark/plugins/     for every run

local uroce = Proto("uroce", "uroce, beyond RoCEv2")

local PROCESS = { [0] = "not told", "gone", "lives", "runs" }
local QUERY_CLASS, QUERY_OUI, GET, GET_RESPONSE = 0x3c, 0x027572, 0x01, 0x81
local SELECTIVE_ACK = 0xde
local BTH_BYTES, AETH_BYTES, DETH_BYTES, ICRC_BYTES = 12, 4, 8, 4

local fields = {
  room = ProtoField.uint16("uroce.sack.room", "Packets kept from the missing one on, at most"),
  bitmap = ProtoField.bytes("uroce.sack.bitmap", "Bitmap"),
  kept = ProtoField.uint24("uroce.sack.kept", "Kept PSN", base.DEC),
  answer = ProtoField.bool("uroce.query.answer", "Answer"),
  qpn = ProtoField.uint24("uroce.query.qpn", "Asked about the process of queue pair", base.HEX),
  process = ProtoField.uint8("uroce.query.process", "Process", base.DEC, PROCESS),
  features = ProtoField.uint24("uroce.query.features", "Features", base.HEX),
  selective = ProtoField.bool("uroce.query.features.selective_acks",
    "Takes selective acknowledgements", 24, nil, 0x01),
  repeats = ProtoField.bool("uroce.query.features.repeats_reads",
    "Answers repeated READs", 24, nil, 0x02),
  tells = ProtoField.bool("uroce.query.features.tells_of_process",
    "Tells of processes", 24, nil, 0x04),
}
uroce.fields = fields

local opcode_field = Field.new("infiniband.bth.opcode")
local psn_field = Field.new("infiniband.bth.psn")
local class_field = Field.new("infiniband.mad.mgmtclass")

local function dissect_selective_ack(bytes, bth, pinfo, tree)
  local at = bth + BTH_BYTES + AETH_BYTES
  local length = bytes:len() - ICRC_BYTES - at
  if length < 4 then return end
  local missing = psn_field().value
  local subtree = tree:add(uroce, bytes:range(at, length), "Selective acknowledgement")
  subtree:add(fields.room, bytes:range(at, 2))
  local kept = 0
  if length > 4 then
    subtree:add(fields.bitmap, bytes:range(at + 4, length - 4))
    for bit = 0, (length - 4) * 8 - 1 do
      local octet = bytes:range(at + 4 + math.floor(bit / 8), 1)
      if octet:bitfield(bit % 8, 1) == 1 then
        kept = kept + 1
        subtree:add(fields.kept, octet, (missing + 1 + bit) % 0x1000000)
      end
    end
  end
  pinfo.cols.info:set(("Selective ACK, PSN %d is missing, %d kept"):format(missing, kept))
end

local function dissect_query(bytes, bth, pinfo, tree)
  local mad = bth + BTH_BYTES + DETH_BYTES
  if bytes:len() < mad + 44 or bytes:range(mad + 37, 3):uint() ~= QUERY_OUI then return end
  local method = bytes:range(mad + 3, 1):uint()
  local is_answer = method == GET_RESPONSE
  if method ~= GET and not is_answer then return end
  local what = is_answer and "Answer to a peer query" or "Peer query"
  local subtree = tree:add(uroce, bytes:range(mad, 44), what)
  subtree:add(fields.answer, bytes:range(mad + 3, 1), is_answer)
  if bytes:range(mad + 21, 3):uint() ~= 0 then
    subtree:add(fields.qpn, bytes:range(mad + 21, 3))
  end
  if is_answer then
    subtree:add(fields.process, bytes:range(mad + 40, 1))
    local features = bytes:range(mad + 41, 3)
    local features_tree = subtree:add(fields.features, features)
    features_tree:add(fields.selective, features)
    features_tree:add(fields.repeats, features)
    features_tree:add(fields.tells, features)
  end
  pinfo.cols.info:set(what)
end

function uroce.dissector(bytes, pinfo, tree)
  local opcode = opcode_field()
  if not opcode then return end
  local class = class_field()
  if opcode.value == SELECTIVE_ACK then
    dissect_selective_ack(bytes, opcode.offset, pinfo, tree)
  elseif class and class.value == QUERY_CLASS then
    dissect_query(bytes, opcode.offset, pinfo, tree)
  end
end

register_postdissector(uroce)
