"""The methods of messages, for the sake of short ones. Part of `_codec`.

What they take and do is said where `message` declares them: in Python, which costs a short message
as much again as being read. They do the same for whatever codec a version has.
"""

cdef object codec_of(object codecs, object version):
    """The codec of a version, which `codecs` makes when it is first asked for."""
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *>codecs, <PyObject *>version)
    if found != NULL:
        return <object>found
    raise_if_pending()
    return codecs[version]


def decode(cls, data, version, *, max_elements=ELEMENTS_UNLIMITED, allow_trailing=False):
    codec = codec_of(cls._codecs, version)
    if type(codec) is CompiledCodec:
        return (<CompiledCodec>codec)._whole(data, max_elements, allow_trailing)
    if allow_trailing:
        return codec.read(data, 0, max_elements)[0]
    return codec.decode(data, max_elements)


def read(cls, data, pos, version, *, max_elements=ELEMENTS_UNLIMITED):
    return codec_of(cls._codecs, version).read(data, pos, max_elements)


def encode(self, version):
    codec = codec_of(self._codecs, version)
    if type(codec) is CompiledCodec:
        return (<CompiledCodec>codec)._joined(self)
    return codec.encode(self)


def encode_parts(self, version):
    return codec_of(self._codecs, version).encode_parts(self)
