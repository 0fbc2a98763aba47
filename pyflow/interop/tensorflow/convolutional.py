"""tensorflow.python.layers.convolutional: the longer names it has for tf.layers' classes.

    convolutional.Convolution2D is tf.layers.Conv2D
"""
from pyflow import layers

Convolution1D = layers.Conv1D
Convolution2D = layers.Conv2D
Convolution3D = layers.Conv3D
Convolution2DTranspose = Deconvolution2D = Deconv2D = layers.Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = layers.Conv3DTranspose
SeparableConvolution1D = layers.SeparableConv1D
SeparableConvolution2D = layers.SeparableConv2D
convolution1d, convolution2d, convolution3d = layers.conv1d, layers.conv2d, layers.conv3d
convolution2d_transpose = deconvolution2d = deconv2d = layers.conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = layers.conv3d_transpose
separable_convolution2d = layers.separable_conv2d
